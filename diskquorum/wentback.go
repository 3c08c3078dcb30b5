package diskquorum

import (
	"errors"
	"slices"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Storage that lies can show a node an older state of the LUN than the one that the node knows: a snapshot is restored,
// a path leads to a copy, or slots were zeroed. Promises and decisions that other nodes have written since are missing
// there, and a ballot on that state decides again what was already decided. So a device that a node has seen go back does
// not count for this node (B11): no read of it completes, so no grant is renewed or taken, no ballot goes on, and none
// begins.
//
// A device has gone back if a copy of this node's slot shows an older record than has landed in that copy, or both copies
// of another slot show older records than they did. A failed write that landed late may take back one copy, and if the
// slot's owner says that its writes may do so (B3), both copies: neither is a sign that the device has gone back.
//
// The device counts again when this node counts a majority, and one read shows this node's latest record and that a
// majority of the list has written this very device since it went back. Until then the slot says that writes to the
// device may be taken back, as after failed writes. The next agent of this node allows for that for two minutes, so a
// restart does not avoid this rule.

var errBack = errors.New("the LUN went back to an older state than this node has read or written (a snapshot, a copy, or a cache in between): " +
	"this node decides nothing by the LUN until this node counts a majority and sees most of the group write the LUN again")

// past is what the reads of a device have shown of a slot, to see whether it goes back.
type past struct {
	shown [copiesPerSlot]uint64 // sequence by copy, as read last; 0: blank
	told  [copiesPerSlot]bool   // the latest read could tell it: it was neither torn nor damaged
	late  [copiesPerSlot]bool   // its owner said in it that failed writes may still land
	older bool                  // the latest read showed older records than the one before, in both copies
	base  uint64                // the greatest sequence when the device was seen to go back, or this slot showed less,
	lost  uint64                // and the greatest that was known of the slot by then; 0: none that counts
}

// follow compares the latest read of a slot with those before. All that is known of a torn copy is what it said
// before.
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
	if p.newest() < was { // whatever the reason: what it shows now is not what its owner has written here since
		p.base = p.newest()
	}
}

// explained reports whether late writes of both copies can explain why they show less.
func (p *past) explained() bool { return p.late[0] || p.late[1] }

func (p *past) newest() uint64 { return max(p.shown[0], p.shown[1]) }

// noteBack judges a read of a device that has been taken, and says so if the device counts for nothing (B11).
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
	case a.claim == claimActive: // before that it arbitrates nothing, and has to claim with what there is
		return errBack
	}
	return nil
}

// ownOlder reports whether a copy of this node's slot shows less than what has landed in it, and no late write can be why:
// none of that copy had failed that could land after it was right last.
func (a *Arbiter) ownOlder(c *Completion) (back bool) {
	l := &a.lanes[c.Device]
	if a.slot < 0 {
		return false
	}
	s := &a.table.devices[c.Device].slots[a.slot]
	for which := range copiesPerSlot {
		switch right := l.right[which]; {
		case !s.past.told[which]: // what is known of it is from the previous read, and a write may have landed since
		case s.past.shown[which] >= l.landed[which]:
			l.right[which] = c.Started
		case mayLand(l.failed[which], right):
		case s.past.shown[which] > 0 && s.copies[which].Process != a.process && mayLand(a.claimSince, right): // an earlier agent's
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

// forget drops what was known of a slot from before the device went back once another agent of its owner has written less since: it
// was started on the older state, and goes on from there. On a set of three the greater record would stay the newest known else
// (B8), and this node would read no promise and no decision of that slot any more. A write of the agent that was known is one that
// hung and has landed late, and what another device shows is not lost.
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

// shows reports whether the latest read of some device has shown that record of a slot, or a later one.
func (t *Table) shows(i int, sequence uint64) bool {
	return slices.ContainsFunc(t.devices, func(d deviceTable) bool { return d.slots[i].past.newest() >= sequence })
}

// stranded reports whether too few devices are ours and have not gone back.
func (a *Arbiter) stranded() bool {
	good := 0
	for d := range a.lanes {
		if l := &a.lanes[d]; l.usable() && l.foreign == nil && !l.back {
			good++
		}
	}
	return good < a.majority()
}

// gone reports whether some device has gone back.
func (a *Arbiter) gone() bool {
	return slices.ContainsFunc(a.lanes, func(l lane) bool { return l.back })
}

// afterStranded is when the table may be read again where that can only show whether the LUN is itself again.
func (a *Arbiter) afterStranded(due boottime.Instant) boottime.Instant {
	if a.stranded() {
		return max(due, a.lastRead.Add(a.timing.Heartbeat))
	}
	return due
}
