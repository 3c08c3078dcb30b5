package roster

// Fresh nodes that join a change
//
// A fresh node counts for nodes that use its list, and may leave that list for a newer one that it is shown. So what it
// has taken up is not a promise, and no node puts a list into force because of it (Succession.settle). It has to
// promise in the end: if the members of a list never heard that their list is in force, and were shown another list, no
// other node can put that other list into force.
//
// So if a fresh node hears that its list is used by a node that knows a list in force, it joins that node: it takes
// over the chain as far as its own list. That a list is in force is a fact and stays true, and the rest of the chain
// only demands more majorities of this node. From then on it is not a fresh node: it promises and claims like any
// other. It stores the chain before it uses it.
//
// The earlier lists of the chain are in no source any more, and are handed over. They cannot remove
// this node, whether they name it or not: its own list, which its own source has shown, is newer.

// entry is how a fresh node gets a chain: one that it can take over, or a list of a chain that it lacks.
type entry struct {
	chain   []*Roster
	missing Ref
	from    int
}

// entrance finds the way into a chain that uses the list of this fresh node.
func (s *Succession) entrance(p *Peers) (e entry) {
	if s.founding() && s.vouched && s.agreed(p) { // stored first, like a chain that is joined
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

// bound reports whether a contact that is not fresh uses the list of this fresh node. This node may be in the contact's
// majority, so it does not leave the list for one that is not in force.
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

// join returns the chain to store; Saved puts it in use.
func (s *Succession) join(chain []*Roster) *Saved {
	if s.saving || len(chain) == 0 {
		return nil
	}
	s.saving, s.joining = true, chain
	return &Saved{Chain: chain}
}

// joined uses the chain that was stored.
func (s *Succession) joined() {
	chain := s.joining
	if s.joining = nil; !s.fresh || s.chain[0] != chain[len(chain)-1] {
		s.dirty = true // its list has come into force meanwhile
		return
	}
	s.version++
	s.chain, s.fresh = chain, false
}

// Vouch says that a person vouches for a list of epoch 0, by a file, and that this node remembers none: it is fresh, and the list is in
// force when others agree, see agreed. forgot says that an agent has run here before, so that there was something to remember.
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

// agreed reports whether the list that a person vouches for may come into force, given what others say: most of its
// members, this node among them, use it and no other. That is what a quorum takes in any case, so a group that begins
// waits for nobody.
//
// Invariant: a node that remembers nothing does not put its list into force alone, nor while another node uses
// another list in force: it may have used that list itself, and have been counted by it. A list of one is that node's
// own affair, if nothing was forgotten.
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
