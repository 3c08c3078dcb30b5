package diskquorum

// PeerSlot returns the latest readable record of a node's slot; ok is false while the node
// has none or its slot cannot be read. The record is valid until the next call of Complete.
func (a *Arbiter) PeerSlot(name string) (rec *Slot, ok bool) {
	i, ok := a.table.find(name)
	if !ok {
		return nil, false
	}
	return a.table.entries[i].record(), true
}
