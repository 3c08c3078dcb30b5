package roster

// Peers holds what a node knows about its peers when it checks whether its succession can continue. All indices are
// those of one directory.
type Peers struct {
	Self    int
	Contact Set                     // peers with two-way evidence younger than D_max, with any roster
	Stands  func(peer int) Standing // returns the announcement of a contact
	Members func(r *Roster) Set     // returns the members of a roster
}

// Moves is the result of this check.
type Moves struct {
	Changed bool   // the chain is another one: count again, and send it to the peers
	Save    *Saved // to be stored; nil: nothing. Answer with Succession.Saved; until then no other state is returned
	Fetch   Ref    // a list that this node lacks: fetch it from the source, and from one of Holders; zero: none
	From    int    // a contact that has the list of Fetch
	Holders Set    // the contacts that can hand it over; empty: no contact has taken it up
	Rival   int    // a contact that has another list of the same epoch; -1: none
}

// Advance goes as far as what the peers announce allows. In steady state it does not allocate.
func (s *Succession) Advance(p *Peers) Moves {
	m := Moves{Rival: -1}
	if s.steady(p) {
		m.Save = s.save(nil)
		return m
	}
	s.recognise(p)
	s.number(p)
	for s.adoptBase(p) || s.takeUp(p) || s.settle(p) {
		m.Changed = true
	}
	founded, pledge := s.found(p)
	m.Changed = m.Changed || founded
	want, store, from := s.wanted(p)
	if s.past = (Ref{}); !want.IsZero() && s.known[want] == nil {
		m.Fetch, m.From, m.Holders = want, from, s.holders(p, want)
		for i := range m.Holders.All() {
			if st := p.Stands(i); st.Base() == want {
				s.past = want
			}
		}
	}
	way := s.entrance(p)
	if want.IsZero() && !way.missing.IsZero() {
		m.Fetch, m.From, m.Holders = way.missing, way.from, s.holders(p, way.missing)
	}
	r := s.known[store]
	if s.next = (Ref{}); r != nil {
		s.next = store
	}
	if len(way.chain) > 0 {
		m.Save = s.join(way.chain)
	} else if r != nil && s.mayStore(p, store) {
		m.Save = s.save(r)
	} else {
		m.Save = s.save(pledge)
	}
	m.Rival = s.rival(p)
	return m
}

// steady reports whether all contacts use the one roster of this node.
func (s *Succession) steady(p *Peers) bool {
	if s.fresh || len(s.chain) > 1 || s.offer != nil || s.store != nil || len(s.known) > 0 || s.shows() {
		return false
	}
	plain := Standing{Chain: [MaxChain]Ref{s.chain[0].Ref()}}
	for i := range p.Contact.All() {
		if p.Stands(i) != plain {
			return false
		}
	}
	return true
}

// adoptBase drops earlier rosters when a peer states that a later one is in force. It also ends the wait of a fresh
// node when a peer states that this node's roster is in force. Once a roster has come into force, this stays true.
func (s *Succession) adoptBase(p *Peers) bool {
	for i := range p.Contact.All() {
		st := p.Stands(i)
		base := st.Base()
		if st.Fresh || base.Epoch < s.chain[0].Epoch || base.Epoch == s.chain[0].Epoch && !s.fresh {
			continue
		}
		for _, r := range s.held() {
			if r.Ref() == base {
				s.rebase(r)
				return true
			}
		}
	}
	return false
}

// takeUp puts the offer into the chain.
//
// The first node to do so waits until every peer that it counts has the same offer, and until it would have quorum by
// both. So no node loses its quorum by the change, because the others take up the offer in the very step in which they
// hear of it. A node that hears that a peer has taken the offer up follows, unless it would lose its present quorum.
func (s *Succession) takeUp(p *Peers) bool {
	switch {
	case s.offer == nil || s.pledged():
		return false
	case s.fresh: // a fresh node has no quorum to lose
		s.take(s.offer)
		return true
	case len(s.chain) >= MaxChain:
		return false
	}
	ref, taken, ready := s.offer.Ref(), false, len(s.chain) == 1 || s.stuck(p, s.offer)
	for i := range p.Contact.All() {
		st := p.Stands(i)
		taken = taken || st.holds(ref) && !st.Fresh
		if !st.holds(ref) && st.Offer != ref && s.Countable(&st) {
			ready = false
		}
	}
	after := s.quorate(p, s.offer)
	if !(ready || taken) || !after && (!taken || s.quorate(p, nil)) {
		return false
	}
	s.take(s.offer)
	return true
}

// stuck reports whether the present change cannot be completed with the peers in contact, but could be completed if one
// more list is taken up. Either this node has no quorum, because members of a list were shown the newer list before
// they heard that they are needed. Or a peer knows the newer list and lacks a list of the chain. Taking up one more
// list is always safe: it only requires one more majority. It must not cost this node its quorum.
func (s *Succession) stuck(p *Peers, more *Roster) bool {
	return s.quorate(p, more) && (!s.quorate(p, nil) || s.lacks(p, more.Ref()))
}

// giveWay returns stuck for a list, or false for a list that is not known here. It caches the latest answer, because
// many peers announce the same list.
func (s *Succession) giveWay(p *Peers, ref Ref, tried *Ref, helps *bool) bool {
	if *tried != ref {
		r := s.Lookup(ref)
		*tried, *helps = ref, r != nil && s.stuck(p, r)
	}
	return *helps
}

// lacks reports whether a peer that uses fewer lists than this node knows a newer list.
func (s *Succession) lacks(p *Peers, newer Ref) bool {
	for i := range p.Contact.All() {
		if st := p.Stands(i); !st.Fresh && (st.Known == newer || st.Offer == newer) && !st.holds(s.Top().Ref()) {
			return true
		}
	}
	return false
}

// counted returns the contacts that may be counted with one more roster in the chain, and self.
func (s *Succession) counted(p *Peers, more *Roster) Set {
	var set Set
	for i := range p.Contact.All() {
		if st := p.Stands(i); countable(s.chain, more, &st) {
			set.Add(i)
		}
	}
	set.Add(p.Self)
	return set
}

// quorate reports whether a majority of each roster is counted, with one more roster in the chain.
func (s *Succession) quorate(p *Peers, more *Roster) bool {
	counted := s.counted(p, more)
	for _, r := range s.chain {
		if !s.majority(p, r, counted) {
			return false
		}
	}
	return more == nil || s.majority(p, more, counted)
}

func (s *Succession) majority(p *Peers, r *Roster, of Set) bool {
	return of.And(p.Members(r)).Len() >= s.rank(r)
}

// settle puts the newest roster into force if a majority of each roster of the chain has taken it up. Only countable
// peers prove that: a peer that uses a roster which this node does not know may have made another promise to the
// majority of that roster.
func (s *Succession) settle(p *Peers) bool {
	if s.fresh || len(s.chain) == 1 {
		return false
	}
	top, have, promised := s.Top(), Set{}, Set{}
	have.Add(p.Self)
	promised.Add(p.Self)
	for i := range p.Contact.All() {
		if st := p.Stands(i); st.holds(top.Ref()) && s.Countable(&st) {
			have.Add(i)
			if !st.Fresh {
				promised.Add(i)
			}
		}
	}
	for _, r := range s.chain[:len(s.chain)-1] {
		if !s.majority(p, r, promised) {
			return false
		}
	}
	if !s.majority(p, top, have) {
		return false
	}
	s.rebase(top)
	return true
}

// mayStore reports whether a known roster may become the offer. A stored list is a promise, and is taken up after a
// restart. A peer that does not know the list could not follow: it would no longer count this node and might lose its
// quorum. So all counted nodes must know the list, and with this node they must be a majority of the roster in force.
// Otherwise a single node could promise a list that no other node ever hears of. There are two exceptions: a peer has
// already taken the roster up, or this node is fresh and has no quorum to lose.
func (s *Succession) mayStore(p *Peers, ref Ref) bool {
	all, behind, know := true, false, Set{}
	know.Add(p.Self)
	for i := range p.Contact.All() {
		st := p.Stands(i)
		switch {
		case st.holds(ref) && !st.Fresh:
			return true
		case st.holds(ref) || st.Offer == ref || st.Known == ref:
			know.Add(i)
			behind = behind || !st.Fresh && st.Base().Epoch > s.chain[0].Epoch
		case s.Countable(&st):
			all = false
		}
	}
	return s.fresh || all && (behind || s.majority(p, s.chain[0], know))
}

// wanted picks the roster to continue with: a roster in force, otherwise one that a peer has taken up, otherwise, while
// no change is under way, the newest that is known or offered. It also picks the roster to store: the best one that is
// known here. It picks no roster that is already stored.
func (s *Succession) wanted(p *Peers) (want, store Ref, from int) {
	const offered, taken, inForce = 1, 2, 3
	best, first, bound := 0, 0, s.bound(p)
	tried, helps := Ref{}, false
	consider := func(ref Ref, rank, peer int) {
		if ref.Epoch <= s.chain[0].Epoch && (!s.founding() || rank < inForce) || s.pledged() && rank < inForce || s.has(ref) ||
			rank < inForce && (len(s.chain) >= MaxChain || bound) || rank == offered && ref.Epoch <= s.Top().Epoch {
			return
		}
		if rank == offered && s.vouched && s.founding() {
			return // the first list must come into force first: before that, no node ever states that a numbered list is in force
		}
		if rank == offered && len(s.chain) > 1 && !s.giveWay(p, ref, &tried, &helps) {
			return
		}
		if rank > best || rank == best && ref.Epoch > want.Epoch {
			best, want, from = rank, ref, peer
		}
		if (rank > first || rank == first && ref.Epoch > store.Epoch) && s.Lookup(ref) != nil {
			first, store = rank, ref
		}
	}
	if s.offer != nil {
		consider(s.offer.Ref(), offered, -1)
	}
	for ref := range s.known {
		consider(ref, offered, -1)
	}
	for i := range p.Contact.All() {
		st := p.Stands(i)
		for k, ref := range st.Chain {
			switch {
			case ref.IsZero():
			case st.Fresh: // a fresh peer may have taken up a list that only its own source has shown
				consider(ref, offered, i)
			case k == 0:
				consider(ref, inForce, i)
			default:
				consider(ref, taken, i)
			}
		}
		for _, ref := range []Ref{st.Offer, st.Known} {
			if !ref.IsZero() {
				consider(ref, offered, i)
			}
		}
	}
	if s.offer != nil && want == s.offer.Ref() {
		want = Ref{}
	}
	return want, store, from
}

// save returns the state to store, with a new offer or without. An offer is withdrawn before it is replaced: if it were
// taken up in between, it would be missing after a restart.
func (s *Succession) save(offer *Roster) *Saved {
	if s.saving || !s.dirty && offer == nil {
		return nil
	}
	s.saving, s.dirty = true, false
	if offer != nil {
		s.store, s.offer = offer, nil
		s.version++
	}
	keep := s.offer
	if offer != nil {
		keep = offer
	}
	return &Saved{Fresh: s.fresh, Chain: s.chain, Offer: keep}
}

// Saved handles the result of storing Moves.Save. A state that could not be stored is returned again by a later
// Advance; the caller decides when.
func (s *Succession) Saved(err error) {
	offer := s.store
	s.saving, s.store = false, nil
	switch {
	case s.joining != nil && err == nil:
		s.joined()
	case err != nil:
		s.dirty, s.joining = true, nil
	case offer != nil && (s.founding() || offer.Epoch > s.chain[0].Epoch && !s.has(offer.Ref())):
		s.offer = offer
		s.version++
		delete(s.known, offer.Ref())
	}
}

// rival returns a contact with another list of an epoch that this node knows; -1: none.
func (s *Succession) rival(p *Peers) int {
	for i := range p.Contact.All() {
		st := p.Stands(i)
		for _, ref := range append(st.Chain[:], st.Offer, st.Known) {
			for _, r := range s.chain {
				if !ref.IsZero() && ref.Epoch == r.Epoch && ref != r.Ref() {
					return i
				}
			}
		}
	}
	return -1
}

// Waiting lists the members that delay a change, as far as that is known: those that do not know the new list, those
// without the offer, or those that have not taken up the newest roster or cannot be counted.
func (s *Succession) Waiting(p *Peers) Set {
	var missing Set
	r := s.Top()
	if next := s.Next(); next != nil {
		r = next
	} else if s.offer != nil {
		r = s.offer
	} else if len(s.chain) == 1 && !s.fresh {
		return missing
	}
	missing = p.Members(s.chain[0]).Union(p.Members(r))
	for i := range p.Contact.All() {
		st := p.Stands(i)
		if s.pledged() && st.Fresh && st.Offer != r.Ref() {
			continue
		}
		if st.holds(r.Ref()) || st.Offer == r.Ref() || st.Known == r.Ref() {
			missing.Remove(i)
		}
	}
	missing.Remove(p.Self)
	return missing
}
