package diskquorum

import (
	"errors"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// A write that failed may still land: its path was lost, and a switch, a controller or the queue
// of a dead connection still has it. It takes back what was written to its copy after it.
// A phase of a ballot is therefore written to both copies (B3), which is enough while one copy
// at most can be taken back. Where a write to each of them has failed, both can: the ballot is
// forgotten, and another half decides the same instance. Such a device does not count in a
// ballot until the older writes cannot land any more.
//
// A later write that landed does not rule that out, nor does a read that shows it: I/O on two
// paths has no order. Only time rules it out.
//
// Writes that fail after the ballot carry it (B1), so they take nothing back.

// lateWrite is the longest time after which a failed write may still land: more than the
// kernel keeps a SCSI command (30 s, and as long again for its error handling), than an iSCSI
// session is tried again (120 s by default), and than a closed TCP connection sends on.
const lateWrite = 2 * time.Minute

// retries is more than writes fail in a row. A retry goes to the same copy, two sequences
// further. Once one has landed the sequence leaps by as much, so that the distance of two
// copies tells a reader whether one of them is from before the failures (judge).
const retries = 1 << 20

var errLate = errors.New("failed writes of both copies of this node's slot may still land")

// legacy is what an agent must expect from the writes of its predecessors.
type legacy struct {
	since boottime.Instant // when the slot was taken up; zero: it was fresh
	late  uint8            // places of the devices on which one said that writes had failed
}

// mayLand reports whether a write that failed at an instant may land at now.
func mayLand(failed, now boottime.Instant) bool {
	return !failed.IsZero() && now.Sub(failed) <= lateWrite
}

// doubtful reports whether older writes of both copies of this node's slot may still land on a
// device (B3). The previous agent may have left one failed write, of one copy, that it could not report: otherwise it
// would have said so in the next record.
func (a *Arbiter) doubtful(d int, now boottime.Instant) bool {
	if a.lanes[d].back {
		return true
	}
	copies := 0
	for _, at := range a.lanes[d].failed {
		if mayLand(at, now) {
			copies++
		}
	}
	if mayLand(a.legacy.since, now) {
		copies++
		if a.legacy.late&a.place(d) != 0 {
			copies++
		}
	}
	return copies >= copiesPerSlot
}

// enoughSure reports whether a ballot can count on a majority of the devices: they work, and
// what they take is not taken back.
func (a *Arbiter) enoughSure(now boottime.Instant) bool {
	sure := 0
	for d := range a.lanes {
		l := &a.lanes[d]
		slow := l.inFlight && now.Sub(l.submitted) > a.timing.IOTimeout
		if l.usable() && !slow && !l.failing && !a.doubtful(d, now) {
			sure++
		}
	}
	return sure >= a.majority()
}

// lateDevices is what the slot says of failed writes that may still land.
func (a *Arbiter) lateDevices(now boottime.Instant) (late uint8) {
	for d := range a.lanes {
		l := &a.lanes[d]
		if l.back || mayLand(l.failed[0], now) || mayLand(l.failed[1], now) {
			late |= a.place(d)
		}
	}
	if mayLand(a.legacy.since, now) {
		late |= a.legacy.late
	}
	return late
}

// place is the bit of a device, whatever the order in which this node names them.
func (a *Arbiter) place(d int) uint8 { return 1 << a.lanes[d].place }
