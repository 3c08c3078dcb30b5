package diskquorum

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// A LUN can become somebody else's while agents run: it is formatted on another host, zeroed, mapped to another
// group. Nobody believes what the agents write then, and their writes destroy what is there now. So no write is begun unless a
// read that ended within the last heartbeat has shown this group's superblock (B10). Every I/O of an arbiter is
// handed out by handOut, and this is checked there, for each device separately. Slots, echo blocks, sentences, the
// record of a stop, and what a device that was away gets later all pass through it.
//
// A read of the table shows the superblock too. Otherwise it is read in parallel with another I/O, for the writes
// that follow, or a read of the superblock alone comes right before the write, except on a device so slow that each
// I/O counts. A device that has shown something else is asked once a heartbeat, until it shows the right
// superblock again. B1 to B9 treat that as an outage: they only know writes that do not land.
//
// A read that fails shows nothing, and neither does a superblock both of whose copies are damaged (B9). That is not a
// reason to call the LUN a different one, and not a reason to write either: a node that cannot read cannot get a grant,
// live by a grant, or know what its writes hit, and its slot would only keep others waiting.

// ErrNotOurs says that the device has something other than this group's superblock.
var ErrNotOurs = errors.New("the LUN is no longer ours")

// OwnSuperblock judges the start of a device, both copies of the superblock, by what its superblock was. No error: it is
// still that one, and worn says why one copy does not count; nil: both do. The error wraps ErrNotOurs if the
// superblock is another one or gone, and does not if that cannot be told.
//
// One copy is enough if the other is damaged or blank: a bad block does that. It is not enough if the other was
// overwritten by something else, because partition tables, md and LVM touch only one of them.
func OwnSuperblock(data []byte, id [16]byte, slots int) (worn, err error) {
	if len(data) < superblockBlocks*BlockSize {
		return nil, fmt.Errorf("read superblock: %d bytes", len(data))
	}
	ours, blank := 0, 0
	for copy := range superblockBlocks {
		block := data[copy*BlockSize : (copy+1)*BlockSize]
		sb, err := DecodeSuperblock(block, copy)
		switch {
		case err == nil && (sb.ID != id || sb.Slots != slots):
			return nil, fmt.Errorf("%w: format id %x, expected %x", ErrNotOurs, sb.ID, id)
		case err == nil:
			ours++
			continue
		case errors.Is(err, ErrBlank):
			blank++
		case errors.Is(err, ErrNoSuperblock), errors.Is(err, ErrVersion):
			return nil, fmt.Errorf("%w: superblock copy %c was overwritten by something else", ErrNotOurs, 'A'+copy)
		}
		worn = err
	}
	switch {
	case ours > 0:
		return worn, nil
	case blank == superblockBlocks:
		return nil, fmt.Errorf("%w: the superblock was zeroed", ErrNotOurs)
	}
	return nil, fmt.Errorf("read superblock: %w", worn)
}

// showed notes what the start of a device, as a read that ended well brought it, shows of its superblock.
func (a *Arbiter) showed(d int, ended boottime.Instant, start []byte) error {
	l := &a.lanes[d]
	dev := &a.table.devices[d]
	worn, err := OwnSuperblock(start, dev.id, a.table.Slots())
	switch {
	case err == nil:
		l.ours, l.foreign = ended, nil
		l.worn = worn
	case errors.Is(err, ErrNotOurs):
		l.ours, l.foreign = 0, err
	default:
		l.ours = 0
	}
	return err
}

// mayWrite reports whether a write to a device may begin at now (B10).
func (a *Arbiter) mayWrite(now boottime.Instant, d int) bool {
	l := &a.lanes[d]
	return !l.ours.IsZero() && now.Sub(l.ours) <= a.trusted(d)
}

// barred reports whether a device can be given no write now, nor be asked yet whether it may.
func (a *Arbiter) barred(now boottime.Instant, d int) bool {
	return !a.mayWrite(now, d) && now < a.lanes[d].askAgain
}

// ask reads the superblock of a device that may be given no write else.
func (a *Arbiter) ask(now boottime.Instant, d int) {
	l := &a.lanes[d]
	if l.echo = false; now < l.askAgain {
		a.wakeAt(l.askAgain)
		return
	}
	l.asks = true
	a.give(now, d, Op{Kind: OpRead, Length: OwnSize})
}

// slow reports whether a device takes a good part of a heartbeat for an I/O, by the latest ones.
func (a *Arbiter) slow(d int) bool { return a.lanes[d].took > a.timing.Heartbeat/10 }

// trusted is how long a read of the superblock counts for the writes after it. While all are in view a device that is not
// slow is read right before: what a write may still hit is what somebody formats in that moment. Else each I/O counts, and
// the table is read after each write anyway.
func (a *Arbiter) trusted(d int) time.Duration {
	if a.slow(d) || a.claim != claimActive || a.view.Len() < a.expected {
		return a.timing.Heartbeat
	}
	return a.timing.Heartbeat / 10
}

// askBeside has the superblock read together with an I/O that does not show it, for the writes that follow: after the read of
// echo blocks comes a write of one, and on a slow device each I/O that need not be waited for counts.
func (a *Arbiter) askBeside(now boottime.Instant, d int, op *Op) {
	l := &a.lanes[d]
	late := now.Sub(l.ours) > a.timing.Heartbeat/10
	op.Own = op.Kind == OpRead && op.Offset > 0 && late || (op.Kind == OpWrite || op.Offset > 0) && a.slow(d)
}

// asked takes the answer. The pending write is handed out by the next dispatch, or has failed before it began: it
// will not land.
func (a *Arbiter) asked(c *Completion) {
	l := &a.lanes[c.Device]
	err := c.Err
	if err == nil {
		err = a.showed(c.Device, c.Ended, c.Data)
	}
	if err == nil {
		l.askAgain = 0
		return
	}
	l.err = err
	if l.askAgain = c.Ended.Add(a.timing.Heartbeat / 10); l.foreign != nil {
		l.askAgain = c.Ended.Add(a.timing.Heartbeat)
	}
	if a.inFlight && a.cur.kind == OpWrite && !a.cur.done.has(c.Device) {
		a.cur.failed.add(c.Device)
		a.cur.err = err
	}
}

// lost is what most devices show in place of this group's superblock, or nil.
func (a *Arbiter) lost() (err error) {
	usable := 0
	for d := range a.lanes {
		if l := &a.lanes[d]; l.foreign != nil {
			err = l.foreign
		} else {
			usable++
		}
	}
	if usable >= a.majority() {
		return nil
	}
	return err
}

// Worn says why one copy of the superblock of a device does not count, while the other one does; nil: both do.
func (a *Arbiter) Worn(d int) error { return a.lanes[d].worn }

// Foreign says what the latest usable read showed in place of this group's superblock, or nil.
func (a *Arbiter) Foreign(d int) error { return a.lanes[d].foreign }
