package diskquorum

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Witness is what the slots say of the other members: who is alive, and who of them counts
// this node. It proves no instant, since a write may land long after it was composed; what
// is concluded from it needs a deadline of its own.
type Witness struct {
	Alive    roster.Set // their slots move
	Counting roster.Set // and show this node in their view
}

// Witness judges the latest read, if it is fresh at now.
func (a *Arbiter) Witness(now boottime.Instant) (w Witness) {
	if a.table.reads == 0 || now.Sub(a.table.start) > a.timing.fresh() {
		return w
	}
	for slot := range a.table.entries {
		e := &a.table.entries[slot]
		idx, ok := a.roster.Index(e.record().NodeName)
		if !a.moves(e) || !ok || idx == a.roster.Self || !a.sameRoster(&e.record().Statement) {
			continue
		}
		w.Alive.Add(idx)
		if e.record().Statement.View.Has(a.roster.Self) {
			w.Counting.Add(idx)
		}
	}
	return w
}

// moves reports whether the latest read showed that the owner of a slot is at work.
func (a *Arbiter) moves(e *entry) bool {
	at, moved := e.arrived()
	return moved && a.table.start.Sub(at) <= a.timing.fresh() && e.status == slotKnown && e.record().State == SlotActive
}

// Strangers names the owners of slots that move and are not on the roster: nodes of another group
// that share the LUN, whose grants keep this group's halves out, or nodes of a list that this one lacks.
func (a *Arbiter) Strangers() []string {
	var names []string
	for slot := range a.table.entries {
		e := &a.table.entries[slot]
		if _, ours := a.roster.Index(e.record().NodeName); !ours && a.moves(e) {
			names = append(names, e.record().NodeName)
		}
	}
	return names
}
