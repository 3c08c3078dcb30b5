package diskquorum

import (
	"errors"
	"slices"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Faulty storage can show a node an older state of the LUN than the one that the node knows: a snapshot is restored, a
// path leads to a copy, or slots were zeroed. That state lacks promises and decisions that other nodes have written
// since, and a ballot on it could decide an instance again that was already decided. So a device that a node has seen
// go back does not count for this node (B11): no read of it completes, so no grant is renewed or accepted, no ballot
// goes on, and none begins.
//
// A device has gone back if a copy of this node's slot shows an older record than has landed in that copy, or both
// copies of another slot show older records than they did. A failed write that landed late may overwrite one copy with
// an older record, and, if the slot's owner has recorded failed writes (B3), both copies: neither is a sign that the
// device has gone back.
//
// The device counts again when this node counts a majority, and one read shows this node's latest record and that a
// majority of the list has written this very device since it went back. Until then the slot states, as after failed
// writes, that writes to the device may be lost. The next agent of this node allows for that for two minutes, so a
// restart does not bypass this rule.

var errBack = errors.New("the LUN went back to an older state than this node has read or written (a snapshot, a copy, or a cache in between): " +
	"this node decides nothing by the LUN until this node counts a majority and sees most of the group write the LUN again")

// past holds what earlier reads of a device have shown of a slot, to detect that it goes back.
type past struct {
	shown [copiesPerSlot]uint64 // sequence by copy, as last read; 0: blank
	told  [copiesPerSlot]bool   // by copy: in the latest read it was neither torn nor damaged
	late  [copiesPerSlot]bool   // by copy: it says that failed writes of its owner may still land
	older bool                  // in both copies, the latest read showed older records than the read before
	base  uint64                // the greatest sequence at the moment when the device was seen to go back, or this slot became older
	lost  uint64                // the greatest sequence known of the slot until then; 0: none that counts
}

// follow compares the latest read of a slot with the earlier ones. For a torn copy, the state from before is kept.
func (p *past) follow(errs *[copiesPerSlot]error, copies *[copiesPerSlot]Slot) {
	older, explained, was := 0, p.explained(), p.newest()
	for which, err := range errs {
		now, late := uint64(0), false
		p.told[which] = err == nil || errors.Is(err, ErrBlank)
		switch {
		case err == nil:
			now, late = copies[which].Sequence, copies[which].Late != 0
		case !p.told[which]:
			continue
		}
		if now < p.shown[which] {
			older++
		}
		p.shown[which], p.late[which] = now, late
	}
	p.older = older == copiesPerSlot && !explained
	if p.newest() < was { // for any reason: the present record is not a later write of its owner
		p.base = p.newest()
	}
}

// explained reports whether late writes of both copies can explain their older records.
func (p *past) explained() bool { return p.late[0] || p.late[1] }

func (p *past) newest() uint64 { return max(p.shown[0], p.shown[1]) }

// noteBack checks a read that take has recorded, and returns an error if the device does not count (B11).
func (a *Arbiter) noteBack(c *Completion) error {
	l, dev := &a.lanes[c.Device], &a.table.devices[c.Device]
	back := a.ownOlder(c)
	for i := range dev.slots {
		back = back || dev.slots[i].past.older
	}
	switch {
	case back:
		l.back = true
		for i := range dev.slots {
			p := &dev.slots[i].past
			p.base, p.lost = p.newest(), a.table.entries[i].last.sequence
		}
	case l.back && a.claim == claimActive && a.shared(c.Device):
		l.back = false
	}
	switch {
	case !l.back:
		a.table.forget(c.Device)
	case a.claim == claimActive: // before that, it does not arbitrate, and must claim its slot from the present state
		return errBack
	}
	return nil
}

// ownOlder reports whether a copy of this node's slot shows an older record than has landed in it, and no late write
// can be the cause: since the copy was last right, no failed write to it could still land.
func (a *Arbiter) ownOlder(c *Completion) (back bool) {
	l := &a.lanes[c.Device]
	if a.slot < 0 {
		return false
	}
	s := &a.table.devices[c.Device].slots[a.slot]
	for which := range copiesPerSlot {
		switch right := l.right[which]; {
		case !s.past.told[which]: // its known state is from the previous read, and a write may have landed since
		case s.past.shown[which] >= l.landed[which]:
			l.right[which] = c.Started
		case mayLand(l.failed[which], right):
		case s.past.shown[which] > 0 && s.copies[which].Process != a.process && mayLand(a.claimSince, right): // a record of an earlier agent
		default:
			back = true
		}
	}
	return back
}

// shared reports whether most of the list is in view and has written a device since it went back.
func (a *Arbiter) shared(d int) bool {
	own := &a.table.devices[d].slots[a.slot]
	if own.status != slotKnown || own.record().Sequence != a.lanes[d].newest() {
		return false
	}
	writing := 0
	for i := range a.table.devices[d].slots {
		s := &a.table.devices[d].slots[i]
		if s.status != slotKnown || s.past.newest() <= s.past.base {
			continue
		}
		if idx, ok := a.roster.Index(s.record().NodeName); ok && a.view.Has(idx) {
			writing++
		}
	}
	return writing >= a.quorum
}

// forget drops the knowledge of a slot from before the device went back, once another agent of its owner has written a
// smaller sequence since: that agent was started on the older state, and continues from there. Otherwise, on a set of
// three, the greater record would stay the newest known one (B8), and this node would read no promise and no decision
// of that slot any more. A write of the agent that was known before does not count, because it may have hung and landed
// late. A record that another device still shows is not lost, so it is kept.
func (t *Table) forget(d int) {
	for i := range t.entries {
		s, known := &t.devices[d].slots[i], t.entries[i].last
		p := &s.past
		if p.lost == 0 || p.newest() <= p.base {
			continue
		}
		switch {
		case p.newest() >= known.sequence || known.sequence > p.lost:
			p.lost = 0
		case s.status != slotKnown, s.record().Process == known.process, t.shows(i, known.sequence):
		default:
			t.entries[i], p.lost = entry{}, 0
		}
	}
}

// shows reports whether the latest read of any device has shown that record of a slot, or a later one.
func (t *Table) shows(i int, sequence uint64) bool {
	return slices.ContainsFunc(t.devices, func(d deviceTable) bool { return d.slots[i].past.newest() >= sequence })
}

// upToDate reports whether most devices of the set are among these and have not gone back.
func (a *Arbiter) upToDate(read deviceSet) bool {
	good := 0
	for d := range a.lanes {
		if read.has(d) && !a.lanes[d].back {
			good++
		}
	}
	return good >= a.majority()
}

// stranded reports whether too few devices count: those that are ours and have not gone back.
func (a *Arbiter) stranded() bool {
	good := 0
	for d := range a.lanes {
		if l := &a.lanes[d]; l.usable() && l.foreign == nil && !l.back {
			good++
		}
	}
	return good < a.majority()
}

// gone reports whether any device has gone back.
func (a *Arbiter) gone() bool {
	return slices.ContainsFunc(a.lanes, func(l lane) bool { return l.back })
}

// afterStranded returns when the table may be read again, while a read can only show whether the LUN has recovered.
func (a *Arbiter) afterStranded(due boottime.Instant) boottime.Instant {
	if a.stranded() {
		return max(due, a.lastRead.Add(a.timing.Heartbeat))
	}
	return due
}
