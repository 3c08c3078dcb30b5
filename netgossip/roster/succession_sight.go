package roster

import (
	"slices"
	"strings"
)

// Lists without numbers
//
// A source such as an API server shows each node the present list and gives it no epoch. The
// nodes number it themselves, without a leader: the epoch is made of a generation, one more
// than any that is announced, and of the list's digest. So two nodes that read the same list after the same list came
// into force give it the same epoch without talking. Two nodes that read different lists give them different epochs;
// Succession merges these, or drops one of them. Whatever the nodes read, and whenever, only a list that was taken up
// under the rules of Succession counts: numbering affects progress but never safety.
//
//   - A node stands by a list only if its own source has shown it: so a list that one node alone was shown, by mistake,
//     holds up a change and causes none.
//   - A number is given only to what was read after the list in force came into force here.
//     What was read before may be the list that was left, and would be brought back.
//
// # The first list
//
// A node that remembers nothing is fresh: it does not know whether its list is the group's. If another node says that
// a list that was shown here is in force, it is. If there is no such node, the group must be founded on the list, and
// that takes all members: each one, in contact with all the others, which are all fresh and were shown the same list,
// stores a pledge to it and announces that. A node that sees the pledges of all has the list in force. A pledge is
// given up for a list in force and for nothing else, so of two lists with a member in common one at most is founded.
// A majority would not do: the rest may be the group, cut off, and live by an older list.
//
// A source that lies could show each of two nodes a list of that node alone, and they would found two groups. So where
// the source is not trusted with that, a person names founders, and a list is founded only if it has all of them
// ([Succession.FoundOnlyWith]): two such lists have a member in common. A node that has a list in force founds none, so
// while one of the founders remembers it there is no second one.

// generationShift leaves the digest's part of an epoch enough bits that two lists of one generation do not get the same
// epoch in practice; where they do, Learn refuses and the next generation is tried. A generation begins above all
// epochs that people gave by hand before.
const generationShift = 20

// kept is how many lists that were shown are remembered, so that one that came into force
// elsewhere a while ago is recognised.
const kept = 8

// Generation is the generation of an epoch that the nodes made themselves; 0: it belongs to the list that the group
// was founded with, or to a list that a person numbered.
func Generation(epoch uint64) uint64 { return epoch >> generationShift }

// EpochOf is the epoch that nodes give a list in a generation.
func EpochOf(generation uint64, r *Roster) uint64 {
	return generation<<generationShift | r.Digest>>(64-generationShift)
}

// sights is what a source without numbers has shown.
type sights struct {
	lists   []*Roster // the last is what it shows
	current bool      // the last was read after the latest change of the chain
}

// Sight takes a list, of epoch 0, that a source without numbers shows. current says that reading it began after the
// latest change of the held rosters. Call it each time, for the same list too.
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

// shows reports whether another list than the newest in the chain is shown.
func (s *Succession) shows() bool {
	n := len(s.shown.lists)
	return n > 0 && s.shown.lists[n-1].Digest != s.Top().Digest
}

// founding reports whether the node waits for a first list to come into force.
func (s *Succession) founding() bool { return s.fresh && s.chain[0].Epoch == 0 }

// pledged reports whether the node has promised to found its list and no other.
func (s *Succession) pledged() bool {
	return s.founding() && s.offer != nil && s.offer.Ref() == s.chain[0].Ref()
}

// FoundOnlyWith names the members without which no group is founded; none: this node founds no group. It joins what
// others have in force in any case.
func (s *Succession) FoundOnlyWith(founders []string) { s.distrusts, s.founders = true, founders }

// Unfounded says why the list that this node waits for is not founded, even if all of its members are in contact; "":
// it may be founded, or need not be.
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
	// Invariant: nobody pledges itself to a list without all founders, so no such list is ever founded.
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

// recognise gives a shown list the number that peers announce for it: a list that is in force or taken up elsewhere,
// if it was ever shown; a list on offer, if it is the one shown now.
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
	_ = s.Learn(l.as(ref.Epoch)) // refused: another list has the epoch, as rival says
}

// as is the same list with another number.
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
	clear(s.known)                                          // all were shown; those that peers announce are recognised again
	_ = s.Learn(list.as(EpochOf(Generation(last)+1, list))) // cannot be refused: the epoch is greater than all
}
