package diskquorum

import (
	"errors"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// A failed write may still land: its path was lost, and a switch, a controller or the queue of a dead connection still
// has it. It then overwrites later writes to its copy. So a phase of a ballot is written to both copies (B3), which is
// enough while at most one copy can be overwritten. If a write to each copy has failed, both can be overwritten: the
// ballot is lost, and another half may decide the same instance. Such a device does not count in a ballot until the
// older writes cannot land any more.
//
// A later write that has landed does not rule this out, nor does a read that shows that write: I/Os on two paths have
// no order. Only time rules it out.
//
// Writes that fail after the ballot contain it (B1), so they do no harm if they land.

// lateWrite is the longest time after which a failed write may still land. It is longer than the kernel keeps a SCSI
// command (30 s, and another 30 s for error handling), than an iSCSI session is retried (120 s by default), and than a
// closed TCP connection goes on sending.
const lateWrite = 2 * time.Minute

// retries is more than the number of consecutive failed writes. A retry goes to the same copy, with a sequence greater
// by two. Once a retry has landed, the sequence skips retries numbers, so the distance of the two copies shows a reader
// whether one of them is from before the failures (judge).
const retries = 1 << 20

var errLate = errors.New("failed writes of both copies of this node's slot may still land")

// legacy holds what an agent must expect from the writes of earlier agents of this node.
type legacy struct {
	since boottime.Instant // when this agent took the slot over; zero: the slot was blank
	late  uint8            // places of the devices on which an earlier agent recorded failed writes
}

// mayLand reports whether a write that failed at an instant may still land at now.
func mayLand(failed, now boottime.Instant) bool {
	return !failed.IsZero() && now.Sub(failed) <= lateWrite
}

// doubtful reports whether older writes of both copies of this node's slot may still land on a device (B3). The
// previous agent may have left one failed write, to one copy, that it could not record: it would have recorded an
// earlier one in its next record.
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

// enoughSure reports whether a ballot can rely on a majority of the devices: they work, and late writes cannot
// overwrite the ballot on them.
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

// lateDevices returns the bits in the slot for devices on which failed writes may still land.
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

// place returns the bit of a device by its place in the set, which does not depend on this node's configuration.
func (a *Arbiter) place(d int) uint8 { return 1 << a.lanes[d].place }
