package roster

import (
	"slices"
	"strings"
)

// Lists without numbers
//
// A source such as an API server shows each node the present list without an epoch. The nodes number the list
// themselves, without a leader: the epoch consists of a generation, one more than any announced one, and of the list's
// digest. So two nodes that read the same list after the same list came into force give it the same epoch without
// communication. Two nodes that read different lists give them different epochs; Succession merges these, or drops one
// of them. Only a list that was taken up under the rules of Succession counts, no matter what the nodes read and when:
// numbering affects progress, but never safety.
//
//   - A node supports a list only if its own source has shown it. So a list that was shown to one node only, by
//     mistake, may delay a change, but does not cause one.
//   - A node numbers a list only if it was read after the present list came into force here. A list that was read
//     before may be the former list, which would be brought back.
//
// # The first list
//
// A node that remembers nothing is fresh: it does not know whether its list is the group's list. If another node states
// that a list that was shown here is in force, that list is in force here, too. If there is no such node, the group
// must be founded on the list, and that needs all members. Each member must be in contact with all others, and all must
// be fresh and have been shown the same list. It then stores a pledge to the list and announces the pledge. For a node
// that sees the pledges of all, the list is in force. A pledge is given up only for a list in force, so of two lists
// with a common member at most one is founded. A majority would not be enough: the other members may be the existing
// group, cut off, and live by an older list.
//
// A lying source could show each of two nodes a list with only that node, and they would found two groups. So if the
// source is not trusted with this, a person names founders, and a list is founded only if it has all of them
// ([Succession.FoundOnlyWith]): two such lists have a common member. A node that has a list in force founds no other,
// so while one of the founders remembers the list, there is no second group.

// generationShift leaves enough bits of an epoch for the digest, so that two lists of one generation do not get the
// same epoch in practice. If they do, Learn refuses the list and the next generation is tried. The first generation
// begins above all epochs that people assign by hand.
const generationShift = 20

// kept is the number of shown lists that are remembered, so that a list that came into force elsewhere some time ago is
// recognised.
const kept = 8

// Generation returns the generation of an epoch that the nodes assigned themselves; 0: the epoch belongs to the list
// with which the group was founded, or to a list that a person numbered.
func Generation(epoch uint64) uint64 { return epoch >> generationShift }

// EpochOf returns the epoch that nodes assign to a list in a generation.
func EpochOf(generation uint64, r *Roster) uint64 {
	return generation<<generationShift | r.Digest>>(64-generationShift)
}

// sights holds the lists that a source without numbers has shown.
type sights struct {
	lists   []*Roster // the last one is the list that it shows now
	current bool      // the last list was read after the latest change of the chain
}

// Sight records a list, of epoch 0, from a source that does not number its lists. current reports that reading the list
// began after the latest change of the held rosters. Call it after each read, even if the list is the same.
func (s *Succession) Sight(r *Roster, current bool) {
	same := func(l *Roster) bool { return l.Digest == r.Digest }
	if n := len(s.shown.lists); n == 0 || !same(s.shown.lists[n-1]) {
		s.shown.lists = append(slices.DeleteFunc(s.shown.lists, same), r)
		s.shown.lists = s.shown.lists[max(0, len(s.shown.lists)-kept):]
	}
	s.shown.current = current
	if s.founding() && !s.pledged() && !s.saving && s.chain[0].Digest != r.Digest {
		s.chain, s.dirty = []*Roster{r}, true
		s.version++
	}
}

// shows reports whether the source shows another list than the newest in the chain.
func (s *Succession) shows() bool {
	n := len(s.shown.lists)
	return n > 0 && s.shown.lists[n-1].Digest != s.Top().Digest
}

// founding reports whether the node waits for a first list to come into force.
func (s *Succession) founding() bool { return s.fresh && s.chain[0].Epoch == 0 }

// pledged reports whether the node has promised to found only its list.
func (s *Succession) pledged() bool {
	return s.founding() && s.offer != nil && s.offer.Ref() == s.chain[0].Ref()
}

// FoundOnlyWith names the members without which no group is founded; none: this node founds no group. In any case it
// joins a list that others have in force.
func (s *Succession) FoundOnlyWith(founders []string) { s.distrusts, s.founders = true, founders }

// Unfounded returns why the list that this node waits for cannot be founded, even if all of its members are in contact;
// "": it may be founded, or is already in force.
func (s *Succession) Unfounded() string {
	if !s.distrusts || !s.founding() {
		return ""
	}
	if len(s.founders) == 0 {
		return "no initial members are named"
	}
	var missing []string
	for _, name := range s.founders {
		if _, there := s.chain[0].Index(name); !there {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return "it does not list " + strings.Join(missing, ", ")
}

// found advances the founding of the first list.
func (s *Succession) found(p *Peers) (done bool, pledge *Roster) {
	if !s.founding() || s.vouched || s.chain[0].Self < 0 {
		return false, nil
	}
	// Invariant: no node pledges itself to a list that lacks a founder, so no such list is ever founded.
	if s.Unfounded() != "" {
		return false, nil
	}
	list := s.chain[0]
	want := Standing{Fresh: true, Chain: [MaxChain]Ref{list.Ref()}}
	agree, pledged := Set{}, Set{}
	agree.Add(p.Self)
	if s.pledged() {
		pledged.Add(p.Self)
	}
	for i := range p.Contact.All() {
		st := p.Stands(i)
		if st.Offer == list.Ref() {
			pledged.Add(i)
			st.Offer = Ref{}
		}
		st.Known = Ref{}
		if st == want {
			agree.Add(i)
		}
	}
	members := p.Members(list)
	switch {
	case members.Len() != list.Size() || !members.Minus(agree).IsEmpty():
		return false, nil
	case members.Minus(pledged).IsEmpty():
		s.rebase(list)
		return true, nil
	case !s.pledged():
		return false, list
	}
	return false, nil
}

// recognise gives a shown list the number that peers announce for it. A list that is in force or taken up elsewhere is
// recognised if it was ever shown; an offered or known list only if it is the one shown now.
func (s *Succession) recognise(p *Peers) {
	if len(s.shown.lists) == 0 {
		return
	}
	last := s.shown.lists[len(s.shown.lists)-1]
	for i := range p.Contact.All() {
		st := p.Stands(i)
		for _, ref := range []Ref{st.Offer, st.Known} {
			if ref.Digest == last.Digest && !st.Fresh {
				s.recogniseAs(last, ref)
			}
		}
		if st.Fresh {
			continue
		}
		for _, ref := range st.Chain {
			for _, l := range s.shown.lists {
				if l.Digest == ref.Digest {
					s.recogniseAs(l, ref)
				}
			}
		}
	}
}

func (s *Succession) recogniseAs(l *Roster, ref Ref) {
	if ref.IsZero() || s.Lookup(ref) != nil {
		return
	}
	_ = s.Learn(l.as(ref.Epoch)) // if refused, another list has the epoch, and rival reports it
}

// as returns the same list with another number.
func (r *Roster) as(epoch uint64) *Roster {
	o := *r
	o.Epoch = epoch
	return &o
}

// number gives the shown list a new number, unless the list is already the newest that is held or known here. It is the
// newest if a peer has announced the newest number for it.
func (s *Succession) number(p *Peers) {
	if !s.shown.current || len(s.shown.lists) == 0 || !s.Claims() || len(s.chain) > 1 || s.saving || !s.quorate(p, nil) {
		return
	}
	list, newest := s.shown.lists[len(s.shown.lists)-1], s.chain[0]
	if s.offer != nil {
		newest = s.offer
	}
	for _, r := range s.known {
		if r.Epoch > newest.Epoch {
			newest = r
		}
	}
	if list.Digest == newest.Digest {
		return
	}
	last := newest.Epoch
	for i := range p.Contact.All() {
		st := p.Stands(i)
		for _, ref := range append(st.Chain[:], st.Offer, st.Known) {
			last = max(last, ref.Epoch)
		}
	}
	clear(s.known)                                          // all of them were shown; those that peers announce are recognised again
	_ = s.Learn(list.as(EpochOf(Generation(last)+1, list))) // cannot be refused: the epoch is greater than all
}
