package roster

// Fresh nodes that join a change
//
// A fresh node counts for nodes that use its list, and may leave that list for a newer one from its source. So a list
// that it has taken up is not a promise, and does not help to put a list into force (Succession.settle). But a fresh
// node must promise at some time. Otherwise, if the members of a list never hear that their list is in force, and are
// shown another list, no node can ever put that other list into force.
//
// So if a fresh node hears that its list is used by a node that knows a list in force, it joins that node: it adopts
// that node's chain up to its own list. That a list is in force stays true for good, and the rest of the chain only
// requires more majorities of this node. From then on the node is not fresh any more: its lists are promises, and it
// may be quorate. It stores the chain before it uses it.
//
// The earlier lists of the chain are not in any source any more, so they are handed over. They cannot remove this node,
// even if they do not name it: the list that its own source has shown is newer.

// entry describes how a fresh node gets a chain: it holds a chain that the node can adopt, or a missing list of such a
// chain.
type entry struct {
	chain   []*Roster
	missing Ref
	from    int
}

// entrance looks for a chain that contains the list of this fresh node.
func (s *Succession) entrance(p *Peers) (e entry) {
	if s.founding() && s.vouched && s.agreed(p) { // stored first, like a chain that is adopted
		return entry{chain: s.chain}
	}
	if !s.fresh || s.founding() || s.offer != nil {
		return e
	}
	own := s.chain[0].Ref()
	for i := range p.Contact.All() {
		st := p.Stands(i)
		if st.Fresh || !st.holds(own) {
			continue
		}
		var chain []*Roster
		for _, ref := range st.Chain {
			r := s.Lookup(ref)
			if r == nil {
				e.missing, e.from = ref, i
				break
			}
			if chain = append(chain, r); ref == own {
				return entry{chain: chain}
			}
		}
	}
	return e
}

// bound reports whether a contact that is not fresh uses the list of this fresh node. The contact may need this node
// for its majority, so this node does not leave the list for one that is not in force.
func (s *Succession) bound(p *Peers) bool {
	if !s.fresh || s.founding() {
		return false
	}
	for i := range p.Contact.All() {
		if st := p.Stands(i); !st.Fresh && st.holds(s.chain[0].Ref()) {
			return true
		}
	}
	return false
}

// join returns the chain to store; Saved starts its use.
func (s *Succession) join(chain []*Roster) *Saved {
	if s.saving || len(chain) == 0 {
		return nil
	}
	s.saving, s.joining = true, chain
	return &Saved{Chain: chain}
}

// joined starts the use of the stored chain.
func (s *Succession) joined() {
	chain := s.joining
	if s.joining = nil; !s.fresh || s.chain[0] != chain[len(chain)-1] {
		s.dirty = true // its list has come into force in the meantime
		return
	}
	s.version++
	s.chain, s.fresh = chain, false
}

// Vouch records that a person vouches, by a file, for a list of epoch 0, and that this node remembers no list: it is
// fresh, and the list comes into force when others agree, see agreed. forgot reports that an agent has run here before,
// so stored state has been lost.
func (s *Succession) Vouch(list *Roster, forgot bool) {
	if !s.founding() || s.pledged() || s.saving || list.Epoch != 0 {
		return
	}
	s.vouched, s.forgot = true, forgot
	if s.chain[0].Digest != list.Digest {
		s.chain, s.dirty = []*Roster{list}, true
		s.version++
	}
}

// agreed reports whether the list that a person vouches for may come into force: most of its members, including this
// node, use it and no other list. A quorum needs these members anyway, so a new group does not wait longer because of
// this.
//
// Invariant: a node that remembers nothing does not put its list into force alone, nor while another node uses another
// list that is in force: this node may have used that list and have been counted by it. A list with one member needs
// nobody else, if no state has been lost.
func (s *Succession) agreed(p *Peers) bool {
	list := s.chain[0]
	agree := Set{}
	agree.Add(p.Self)
	for i := range p.Contact.All() {
		switch st := p.Stands(i); {
		case st.Chain == [MaxChain]Ref{list.Ref()}:
			agree.Add(i)
		case !st.Fresh:
			return false
		}
	}
	if list.Self < 0 || s.forgot && list.Size() == 1 {
		return false
	}
	return s.majority(p, list, agree) && 2*agree.And(p.Members(list)).Len() > list.Size()
}
