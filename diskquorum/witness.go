package diskquorum

// moves reports whether the latest read showed that the owner of a slot is running.
func (a *Arbiter) moves(e *entry) bool {
	at, moved := e.arrived()
	return moved && a.table.start.Sub(at) <= a.fresh() && e.status == slotKnown && e.record().State == SlotActive
}

// Strangers names the owners of slots that move and are not on the roster: nodes of another group that uses the same
// LUN, whose grants exclude this group's halves, or nodes of a list that this node lacks.
func (a *Arbiter) Strangers() []string {
	var names []string
	for slot := range a.table.entries {
		e := &a.table.entries[slot]
		if _, ours := a.member(slot); !ours && a.moves(e) {
			names = append(names, e.record().NodeName)
		}
	}
	return names
}
