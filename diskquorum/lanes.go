package diskquorum

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// MaxDevices is the number of devices of a set: a LUN has one device, or three of which a majority counts.
const MaxDevices = 3

// deviceSet is a set of devices, by position in ArbiterConfig.Devices.
type deviceSet uint8

func (s deviceSet) has(d int) bool { return s>>d&1 != 0 }
func (s *deviceSet) add(d int)     { *s |= 1 << d }
func (s deviceSet) len() int       { return bits.OnesCount8(uint8(s)) }

// lane is the I/O state of one device: at most one operation is in flight on it, and none is ever given up (B2). A
// hanging lane keeps its operation and delays no other lane.
type lane struct {
	present   bool // the device has been opened and belongs to the set
	place     int  // place in the set, from its superblock
	op        Op
	echo      bool   // op is an I/O on echo blocks, which is not part of a transfer
	buf       []byte // buffer of the record being written
	block     []byte // buffer of the echo block that is written at the same time
	inFlight  bool
	submitted boottime.Instant
	transfer  uint64 // the transfer for which a read was handed out
	sequence  uint64 // of the record that a write carries

	// Sequences by copy of the slot: of the last attempted write, and of the last one that landed.
	tried, landed [copiesPerSlot]uint64
	failed        [copiesPerSlot]boottime.Instant // when a write to the copy last failed
	failing       bool                            // the last write failed

	lastGood boottime.Instant
	err      error // of the last operation

	ours     boottime.Instant // END of the last read, if it showed this group's superblock (B10)
	foreign  error            // what the last usable read showed instead of it
	worn     error            // why one copy of the superblock does not count
	took     time.Duration    // the longest of the latest operations
	asks     bool             // op reads the superblock
	askAgain boottime.Instant // no read of the superblock before this moment
	back     bool             // the device was seen to go back to an older state (B11)

	right [copiesPerSlot]boottime.Instant // by copy of the slot: when it was last known to hold its latest landed record
}

// newest returns the sequence of the newest record that has landed on the lane.
func (l *lane) newest() uint64 { return max(l.landed[0], l.landed[1]) }

func (l *lane) usable() bool { return l.present }

// transfer is one write of this node's record, or one read of the table, as the rest of the arbiter sees it: it goes to
// all devices at once and is complete when a majority of them has completed it (B8). With one device it is that
// device's I/O.
//
// Why a majority is as good as one device: a read begins only after this node's preceding write has landed on a
// majority. Let two nodes each write and then read. The node whose write is completed last reads after the other's
// write has been completed, on a majority that shares a device with the majority of that write. A device that missed a
// record may show an older record, or none; among the devices that were read, the greatest sequence counts.
type transfer struct {
	kind         OpKind
	id           uint64
	also         uint64 // a write counts only on devices on which this record has landed, too; 0: no such condition (B3)
	handed       bool   // an I/O has been handed out to a device
	done, failed deviceSet
	start, end   boottime.Instant // earliest start and latest end of the I/Os that count
	err          error
}

func (a *Arbiter) majority() int { return len(a.lanes)/2 + 1 }

// alsoWrite makes the present write count only on devices whose other copy holds the record before it (B3). A device
// that was busy gets both writes; a device on which the other write failed does not count in this transfer.
func (a *Arbiter) alsoWrite(s uint64) {
	a.cur.also = s
	for d := range a.lanes {
		l := &a.lanes[d]
		if which := s % copiesPerSlot; l.tried[which] == s && l.landed[which] != s && (!l.inFlight || l.echo || l.asks) {
			a.cur.failed.add(d)
			a.cur.err = l.err
		}
	}
}

// begin starts a transfer. dispatch hands out its I/Os.
func (a *Arbiter) begin(now boottime.Instant, kind OpKind) {
	a.nextTransfer++
	a.cur = transfer{kind: kind, id: a.nextTransfer}
	a.inFlight, a.submitted = true, now
	if a.prop.phase != phaseIdle {
		a.prop.ios++
	}
}

// dispatch hands out an I/O to every idle device that the present transfer needs. A device that missed the latest
// record writes it before anything else, even between transfers, so that more devices have it.
func (a *Arbiter) dispatch(now boottime.Instant) {
	a.ops = a.ops[:0]
	if a.claim == claimFailed {
		return // another agent writes the slot: this node no longer does
	}
	for d := range a.lanes {
		l := &a.lanes[d]
		if !l.usable() || l.inFlight {
			if l.inFlight {
				a.wakeAfter(now, l.submitted.Add(a.timing.IOTimeout+1))
			}
			continue
		}
		switch rec := a.owed(d); {
		case rec != nil:
			a.handOutWrite(now, d, rec)
		case a.inFlight && a.cur.kind == OpRead && !a.cur.done.has(d) && !a.cur.failed.has(d):
			l.transfer = a.cur.id
			a.handOut(now, d, Op{Kind: OpRead, Length: a.readLength(now, d)})
		}
	}
	a.out.Ops = a.ops
}

// wakeAfter requests a step at t, if t is in the future.
func (a *Arbiter) wakeAfter(now, t boottime.Instant) {
	if t > now {
		a.wakeAt(t)
	}
}

// owed returns the record that a device has to write next, or nil. Each record is tried once: the next heartbeat has a
// newer one.
func (a *Arbiter) owed(d int) *Slot {
	l := &a.lanes[d]
	if s := a.cur.also; a.inFlight && a.cur.kind == OpWrite && s != 0 && l.tried[s%copiesPerSlot] != s {
		return &a.records[s%copiesPerSlot]
	}
	if s := a.recorded; s != 0 && l.tried[s%copiesPerSlot] != s {
		return &a.records[s%copiesPerSlot]
	}
	return nil
}

func (a *Arbiter) handOutWrite(now boottime.Instant, d int, rec *Slot) {
	l := &a.lanes[d]
	which := int(rec.Sequence % copiesPerSlot)
	if err := EncodeSlot(l.buf, a.table.devices[d].id, rec, which); err != nil {
		a.fail(fmt.Errorf("encode own slot: %w", err))
		return
	}
	if a.handOut(now, d, Op{Kind: OpWrite, Offset: SlotOffset(a.slot, which), Data: l.buf}) {
		l.sequence, l.tried[which] = rec.Sequence, rec.Sequence
	}
}

// handOut hands out an I/O to an idle device. A write waits until it is known that the LUN is ours (B10); false: a read
// has to prove that first.
func (a *Arbiter) handOut(now boottime.Instant, d int, op Op) bool {
	if op.Kind == OpWrite && !a.mayWrite(now, d) {
		a.ask(now, d)
		return false
	}
	a.give(now, d, op)
	return true
}

func (a *Arbiter) give(now boottime.Instant, d int, op Op) {
	l := &a.lanes[d]
	if !l.echo && a.inFlight && !a.cur.handed {
		a.cur.handed, a.submitted = true, now // until now, another I/O was under way
	}
	a.nextID++
	op.ID, op.Device = a.nextID, d
	a.askBeside(now, d, &op)
	l.op, l.inFlight, l.submitted = op, true, now
	a.ops = append(a.ops, op)
	a.wakeAt(now.Add(a.timing.IOTimeout + 1))
}

// Complete handles the end of an I/O that was handed out. The next Step evaluates its effect on the lease.
func (a *Arbiter) Complete(now boottime.Instant, c *Completion) {
	if c.Device < 0 || c.Device >= len(a.lanes) {
		return
	}
	l := &a.lanes[c.Device]
	if !l.inFlight || c.ID != l.op.ID {
		return
	}
	l.inFlight, l.took = false, max(c.Ended.Sub(c.Started), l.took*7/8)
	if c.Own != nil {
		_ = a.showed(c.Device, cmp.Or(c.OwnEnded, c.Ended), c.Own) // the lane keeps the result
	}
	a.echo.lanes[c.Device].last = l.echo
	switch {
	case l.asks:
		l.asks = false
		a.asked(c)
	case l.echo:
		l.echo = false
		a.echoed(c)
	case c.Kind == OpWrite:
		if l.op.Beside != nil {
			a.echoed(&Completion{Device: c.Device, Kind: OpWrite, Started: c.Started, Ended: c.Ended, Err: cmp.Or(c.BesideErr, c.Err)})
		}
		a.laneWrote(c)
	default:
		a.laneRead(c)
		if whole := int(DeviceSize(a.Slots())); l.op.Length == whole {
			blocks := *c
			if c.Err == nil {
				blocks.Data = c.Data[EchoOffset(a.Slots(), 0):whole]
			}
			a.echoed(&blocks)
		}
	}
	a.conclude(now)
}

func (a *Arbiter) laneWrote(c *Completion) {
	l := &a.lanes[c.Device]
	l.err = c.Err
	which := l.sequence % copiesPerSlot
	if c.Err != nil {
		a.double = true // the write may still land, and overwrite the next write to that copy (B3)
		l.failed[which], l.failing = max(c.Ended, 1), true
	} else {
		a.leap = a.leap || l.failing
		l.failing, l.lastGood = false, c.Ended
		l.landed[which], l.right[which] = l.sequence, c.Started
	}
	t := &a.cur
	if !a.inFlight || t.kind != OpWrite {
		return
	}
	switch s := l.sequence; {
	case s != a.recorded && s != t.also:
		// A write of an earlier transfer does not count for this one, whatever its result (B8).
	case c.Err != nil:
		t.fail(c)
	case a.prop.phase != phaseIdle && a.doubtful(c.Device, c.Ended):
		t.failed.add(c.Device) // the phase may be overwritten on this device (B3)
		t.err = errLate
	case s == a.recorded && (t.also == 0 || l.landed[t.also%copiesPerSlot] == t.also):
		t.count(c)
	default: // one of two copies
	}
}

func (a *Arbiter) laneRead(c *Completion) {
	l := &a.lanes[c.Device]
	if c.Err == nil {
		c.Err = a.showed(c.Device, c.Ended, c.Data)
	}
	if c.Err == nil {
		c.Err = a.table.take(c)
	}
	if c.Err == nil {
		c.Err = a.noteBack(c)
	}
	if l.err = c.Err; c.Err == nil {
		l.lastGood = c.Ended
	}
	switch t := &a.cur; {
	case !a.inFlight || t.kind != OpRead || l.transfer != t.id:
	case c.Err != nil:
		t.fail(c)
	default:
		t.count(c)
	}
}

func (t *transfer) fail(c *Completion) {
	t.failed.add(c.Device)
	t.err = c.Err
}

func (t *transfer) count(c *Completion) {
	if t.done == 0 || c.Started < t.start {
		t.start = c.Started
	}
	t.end = max(t.end, c.Ended)
	t.done.add(c.Device)
}

// conclude ends the present transfer when enough devices have completed it, or too few can. A read waits for another
// device if the devices that answered do not determine the state of some slot, and so does the read from which a claim
// continues (B3). No read waits for a device that takes too long. If a device failed but may work again by now, the
// transfer does not wait for a slow one: it fails, and the next transfer uses the failed device again.
func (a *Arbiter) conclude(now boottime.Instant) {
	if !a.inFlight {
		return
	}
	t := &a.cur
	possible, waiting, slow := t.done.len(), false, 0
	for d := range a.lanes {
		l := &a.lanes[d]
		if !l.usable() || t.done.has(d) || t.failed.has(d) {
			continue
		}
		possible++
		if l.inFlight && now.Sub(l.submitted) > a.timing.IOTimeout {
			slow++
		} else {
			waiting = true
		}
	}
	if failed := t.failed.len(); possible-slow+failed >= a.majority() && !waiting && failed > 0 {
		possible -= slow
	}
	c := Completion{Kind: t.kind, Started: t.start, Ended: t.end}
	if t.kind == OpWrite {
		c.Started = min(t.start, a.submitted) // a device that does not count, or failed, may have been the first to show the record (L6)
	}
	switch {
	case t.done.len() >= a.majority():
		if t.kind == OpRead && waiting && (a.claim == claimRereading || !a.table.resolved(t.done)) {
			return
		}
	case possible < a.majority():
		if c.Err = t.err; c.Err == nil {
			c.Err = a.laneFailure()
		}
	default:
		return
	}
	a.inFlight = false
	if a.ioErr = c.Err; c.Err == nil {
		a.pace.note(now, t.kind, min(c.Ended.Sub(a.submitted), a.timing.IOTimeout)) // a hanging I/O counts as a slow one
	}
	if t.kind == OpWrite {
		a.wrote(now, &c)
	} else {
		a.read(now, &c)
	}
}

// laneFailure returns why there are too few devices.
func (a *Arbiter) laneFailure() error {
	for d := range a.lanes {
		if err := a.lanes[d].foreign; err != nil {
			return err
		}
	}
	return errTooFew
}

var errTooFew = errors.New("most devices of the set are not open")

// AddDevice adds a device of the set that was not open when the arbiter was created.
func (a *Arbiter) AddDevice(d int, sb *Superblock) {
	if l := &a.lanes[d]; !l.present {
		l.present, l.place = true, sb.Device
		a.table.devices[d].id = sb.ID
	}
}

// DeviceTrouble returns why one device does not count at now, or "".
func (a *Arbiter) DeviceTrouble(d int, now boottime.Instant) string {
	switch l := &a.lanes[d]; {
	case !l.present:
		return "not opened yet"
	case l.foreign != nil:
		return l.foreign.Error()
	case l.inFlight && now.Sub(l.submitted) > a.timing.IOTimeout:
		return fmt.Sprintf("an I/O has been under way for more than %v", a.timing.IOTimeout)
	case l.err != nil:
		return l.err.Error()
	}
	if slot := a.table.devices[d].unreadable(); slot >= 0 {
		return fmt.Sprintf("slot %d is damaged on this device; see fencectl lun inspect, and \"a damaged slot\" in docs/troubleshooting.md", slot)
	}
	if len(a.lanes) == 1 || a.claim != claimActive {
		return cmp.Or(a.trouble(now), a.TooSlow())
	}
	return a.TooSlow()
}

// InFlight returns the age of the I/O that is under way on a device; 0: none.
func (a *Arbiter) InFlight(d int, now boottime.Instant) time.Duration {
	if l := &a.lanes[d]; l.inFlight {
		return now.Sub(l.submitted)
	}
	return 0
}
