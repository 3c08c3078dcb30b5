package diskquorum

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// A LUN can get another owner while agents run: it is formatted on another host, zeroed, or mapped to another group.
// The agents' writes are then useless, and destroy the new owner's data. So a write begins only if a read that ended
// within the last heartbeat has shown this group's superblock (B10). handOut hands out every I/O of an arbiter, and
// checks this for each device separately. All writes pass through it: slots, echo blocks, sentences, the record of a
// stop, and the writes that a device missed during an outage.
//
// A read of the table also shows the superblock. Otherwise the superblock is read in parallel with another I/O, for the
// writes that follow, or alone right before the write. The latter is avoided on a device so slow that each I/O counts.
// A device that has shown something else is read once per heartbeat, until it shows the right superblock again. For B1
// to B9 this is an outage: writes that do not land.
//
// A failed read proves nothing, and neither does a superblock with two damaged copies (B9). Neither means that the LUN
// is a different one, but neither allows a write: a node that cannot read cannot get a grant, live by a grant, or know
// what its writes overwrite, and its slot would only make others wait.

// ErrNotOurs means that the device has something other than this group's superblock.
var ErrNotOurs = errors.New("the LUN is no longer ours")

// OwnSuperblock checks whether the start of a device, with both copies of the superblock, still has the known
// superblock. If it has, err is nil, and worn tells why one copy does not count; nil: both count. The error wraps
// ErrNotOurs if the superblock is another one or gone, but not if that is unknown.
//
// One copy is enough if the other is damaged or blank, which a bad block may cause. It is not enough if the other was
// overwritten with other data, because partition tables, md and LVM overwrite only one of them.
func OwnSuperblock(data []byte, id [16]byte, slots int) (worn, err error) {
	if len(data) < superblockBlocks*BlockSize {
		return nil, fmt.Errorf("read superblock: the read has only %d bytes", len(data))
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

// showed records what a successful read of the start of a device shows about its superblock.
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

// barred reports whether no write may go to a device now, and its superblock must not be read again yet either.
func (a *Arbiter) barred(now boottime.Instant, d int) bool {
	return !a.mayWrite(now, d) && now < a.lanes[d].askAgain
}

// ask reads the superblock of a device that may get no write before that.
func (a *Arbiter) ask(now boottime.Instant, d int) {
	l := &a.lanes[d]
	if l.echo = false; now < l.askAgain {
		a.wakeAt(l.askAgain)
		return
	}
	l.asks = true
	a.give(now, d, Op{Kind: OpRead, Length: OwnSize})
}

// slow reports whether the latest I/Os of a device took more than a tenth of a heartbeat.
func (a *Arbiter) slow(d int) bool { return a.lanes[d].took > a.timing.Heartbeat/10 }

// trusted returns how long a read of the superblock counts for the writes after it. While all members are in view, the
// superblock of a device that is not slow is read right before a write: the write can then only hit data if the device
// is formatted at that very moment. Otherwise each I/O counts, and the table is read after each write anyway.
func (a *Arbiter) trusted(d int) time.Duration {
	if a.slow(d) || a.claim != claimActive || a.view.Len() < a.expected {
		return a.timing.Heartbeat
	}
	return a.timing.Heartbeat / 10
}

// askBeside adds a read of the superblock to an I/O that does not include it, for the writes that follow: after a read
// of echo blocks comes a write of one, and on a slow device each avoided wait counts.
func (a *Arbiter) askBeside(now boottime.Instant, d int, op *Op) {
	l := &a.lanes[d]
	late := now.Sub(l.ours) > a.timing.Heartbeat/10
	op.Own = op.Kind == OpRead && op.Offset > 0 && late || (op.Kind == OpWrite || op.Offset > 0) && a.slow(d)
}

// asked handles the result of ask. The pending write is handed out by the next dispatch, or has failed before it began:
// it will not land.
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

// lost returns what most devices show instead of this group's superblock, or nil.
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

// Worn returns why one copy of the superblock of a device does not count, while the other one does; nil: both count.
func (a *Arbiter) Worn(d int) error { return a.lanes[d].worn }

// Foreign returns what the latest usable read showed instead of this group's superblock, or nil.
func (a *Arbiter) Foreign(d int) error { return a.lanes[d].foreign }
