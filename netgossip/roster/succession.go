package roster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// MaxChain bounds the number of rosters of which a node needs majorities at once. During a change there are usually
// two; there are more only if two changes happened at once, each adopted by a part of the group.
const MaxChain = 4

// Standing is a node's statement about the rosters that it uses. It is a comparable value.
type Standing struct {
	// Fresh is true if the node knows no roster in force: it does not claim quorum.
	Fresh bool
	// Chain lists the rosters of which the node needs a majority, ascending by epoch, zero beyond the last. The first
	// is in force as far as the node knows; the others have been taken up.
	Chain [MaxChain]Ref
	// Offer is a newer roster that the node has stored and is ready to take up; zero: none.
	Offer Ref
	// Known is a still newer roster that the node knows but has not stored; zero: none.
	Known Ref
}

// Base returns the roster in force.
func (s *Standing) Base() Ref { return s.Chain[0] }

// holds reports whether ref is in the chain.
func (s *Standing) holds(ref Ref) bool {
	return !ref.IsZero() && slices.Contains(s.Chain[:], ref)
}

// Saved holds what a node must remember about its rosters across a restart.
type Saved struct {
	Fresh bool
	Chain []*Roster // never empty
	Offer *Roster   // nil: none
}

// Succession manages the change from one roster to another while the node runs. It is not safe for concurrent use.
//
// # The protocol
//
// A node is quorate if it counts a majority of every roster of its chain. Usually the chain has one roster, the base. A
// new roster goes through four states, each announced to the peers:
//
//	known     the roster is known and checked: nothing is promised
//	offered   the roster is stored, since all that are counted know it; nothing is counted by it yet
//	taken up  it is in the chain: a majority of the old and of the new one is needed
//	in force  a majority of each was seen to have taken it up: the old ones are dropped
//
// # Why two disjoint parts are never quorate at once
//
// If the chains of two nodes have a roster in common, the nodes count a common member. Otherwise one of the nodes, say
// y, has dropped the rosters that the other, x, uses. So some node saw a majority of the base of x (or of an earlier
// roster) with the newer roster in their chains. A roster is stored before it is taken up, and is never given up again.
// So a node that counts a majority of that base today counts one of those nodes. x counts only nodes whose chains hold
// no roster that x does not hold ([Succession.Countable]). So x must also hold the newer roster and needs a majority of
// it, or has learnt that it is in force. As with every other change, evidence from before the newer roster was taken up
// is at most D_max old.
//
// A node that knows no roster in force (a new node, or one that lost its memory) counts for others, but does not claim
// quorum itself. That changes when a peer states that this node's roster is in force, or states that it has taken that
// roster up and which roster is in force (succession_join.go). Such a node may give up a roster that it has taken up,
// so it does not count in the majority of the base that puts the next roster into force.
type Succession struct {
	fresh bool
	chain []*Roster
	offer *Roster // stored: after a restart it counts as taken up

	known  map[Ref]*Roster // learnt, not stored yet
	next   Ref             // the one of known to store; zero: none
	store  *Roster         // being stored as the offer
	dirty  bool            // the stored state is older than the present one
	saving bool            // something is being stored

	joining []*Roster // being stored: the chain that this fresh node adopts
	past    Ref       // a roster that this node lacks and that is in force according to a contact; zero: none

	shown     sights   // lists shown by a source that does not number them
	vouched   bool     // a person vouches for the first list, by a file
	forgot    bool     // this node's stored state is lost
	distrusts bool     // this node founds only a list that has all founders
	founders  []string // names

	version uint64 // counts changes of the held rosters

	rank func(*Roster) int // returns the quorum of a roster
}

// NewSuccession continues from the saved state, or begins with own, the roster of the configuration. A roster of epoch
// 0 is in force by definition; a roster of a later epoch is not in force until a peer states that it is. Either
// argument may be nil; if only own is given, the caller must store the result before it goes on. To start with a list
// without a number, use &Saved{Fresh: true, Chain: that list, of epoch 0}. A stored offer may have been taken up and
// announced before the restart, so it is taken up.
func NewSuccession(saved *Saved, own *Roster, quorum func(*Roster) int) (*Succession, error) {
	s := &Succession{known: map[Ref]*Roster{}, rank: quorum}
	if saved == nil {
		s.chain, s.fresh = []*Roster{own}, own.Epoch != 0
		return s, nil
	}
	if len(saved.Chain) == 0 || len(saved.Chain) > MaxChain {
		return nil, fmt.Errorf("there are %d lists of members in force or taken up, but 1 to %d are allowed", len(saved.Chain), MaxChain)
	}
	s.chain, s.fresh = slices.Clone(saved.Chain), saved.Fresh
	if !slices.IsSortedFunc(s.chain, func(a, b *Roster) int { return cmpEpoch(a.Ref(), b.Ref()) }) {
		return nil, errors.New("lists of members are not in the order of their epochs")
	}
	if saved.Offer != nil && !s.has(saved.Offer.Ref()) {
		s.take(saved.Offer)
		s.dirty = true
	} else if saved.Offer != nil {
		s.offer = s.chain[0] // a fresh node's pledge
	}
	if own == nil {
		return s, nil
	}
	return s, s.Learn(own)
}

func cmpEpoch(a, b Ref) int {
	switch {
	case a.Epoch < b.Epoch:
		return -1
	case a.Epoch > b.Epoch:
		return 1
	default:
		return 0
	}
}

// ErrEpochTaken means that two different lists have the same epoch.
var ErrEpochTaken = errors.New("another list of members has this epoch: raise members.epoch")

// Learn adds a roster, from the configuration or from a peer, to the known ones. The caller has checked it. A roster
// older than the newest in the chain is ignored, unless a peer uses it. No other list may have the epoch of r.
func (s *Succession) Learn(r *Roster) error {
	if s.vouched && s.founding() && r.Epoch == 0 {
		s.Vouch(r, s.forgot) // the file has changed, and no node has used the first list yet
		return nil
	}
	for _, h := range s.held() {
		switch {
		case h.Ref() == r.Ref():
			return nil
		case h.Epoch == r.Epoch && !s.founding():
			return fmt.Errorf("list of members of epoch %d: %w", r.Epoch, ErrEpochTaken)
		}
	}
	for ref := range s.known {
		if ref.Epoch == r.Epoch && ref != r.Ref() {
			return fmt.Errorf("list of members of epoch %d: %w", r.Epoch, ErrEpochTaken)
		}
	}
	if r.Epoch > s.chain[0].Epoch || s.fresh {
		s.known[r.Ref()] = r
		s.forget(r.Ref())
	}
	return nil
}

// maxKnown bounds the number of known rosters that are not held. A change needs one, a chain that is adopted needs
// three more.
const maxKnown = 16

// forget drops the oldest known list if there are too many, but neither the latest one nor the one to be stored.
// Knowing a list is not a promise, so forgetting a list only costs time: the source shows the present list repeatedly.
//
// Invariant: an endless series of lists does not fill this node's memory.
func (s *Succession) forget(latest Ref) {
	for len(s.known) > maxKnown {
		oldest := Ref{}
		for ref := range s.known {
			if ref != latest && ref != s.next && (oldest.IsZero() || ref.Epoch < oldest.Epoch) {
				oldest = ref
			}
		}
		delete(s.known, oldest)
	}
}

func (s *Succession) held() []*Roster {
	if s.offer == nil {
		return s.chain
	}
	return append(slices.Clone(s.chain), s.offer)
}

// Base returns the roster in force or, while the node is fresh, the roster that is to come into force.
func (s *Succession) Base() *Roster { return s.chain[0] }

// Top returns the newest roster that has been taken up.
func (s *Succession) Top() *Roster { return s.chain[len(s.chain)-1] }

// Chain returns the rosters of which a majority is needed. The caller must not change it.
func (s *Succession) Chain() []*Roster { return s.chain }

// Offer returns the roster that is ready to be taken up, or nil.
func (s *Succession) Offer() *Roster { return s.offer }

// Fresh reports whether the node knows no roster in force.
func (s *Succession) Fresh() bool { return s.fresh }

// Removed reports whether the roster in force does not list this node.
func (s *Succession) Removed() bool { return len(s.chain) == 1 && !s.fresh && s.chain[0].Self < 0 }

// Claims reports whether the node may be quorate at all.
func (s *Succession) Claims() bool { return !s.fresh && !s.Removed() }

// Settled reports whether one list is in force, names this node, and no other list is known or offered.
func (s *Succession) Settled() bool {
	return len(s.chain) == 1 && s.offer == nil && s.Claims()
}

// Prepare returns the newest known list if this node has other addresses on it; nil: there is no such list, or a change
// is under way. The list must be stored as the offer before the node talks to others, because they would not recognise
// the node by its new addresses. Answer with Saved. All other lists are stored only when all counted nodes know them.
func (s *Succession) Prepare() *Saved {
	var newest *Roster
	for _, r := range s.known {
		if newest == nil || r.Epoch > newest.Epoch {
			newest = r
		}
	}
	if newest == nil || len(s.chain) > 1 || newest.Epoch <= s.Top().Epoch || s.Top().sameSelf(newest) {
		return nil
	}
	return s.save(newest)
}

// sameSelf reports whether this node is the same member of both rosters.
func (r *Roster) sameSelf(o *Roster) bool {
	if r.Self < 0 || o.Self < 0 {
		return r.Self == o.Self
	}
	return maps.Equal(r.Members[r.Self].Addresses, o.Members[o.Self].Addresses)
}

// Next returns the list that is stored as soon as all counted nodes know it, or nil.
func (s *Succession) Next() *Roster { return s.known[s.next] }

// Standing returns the statement to announce.
func (s *Succession) Standing() Standing {
	st := Standing{Fresh: s.fresh, Known: s.next}
	for i, r := range s.chain {
		st.Chain[i] = r.Ref()
	}
	if s.offer != nil {
		st.Offer = s.offer.Ref()
	}
	return st
}

// Lookup returns a roster that this node holds or knows, or nil.
func (s *Succession) Lookup(ref Ref) *Roster {
	for _, r := range s.held() {
		if r.Ref() == ref {
			return r
		}
	}
	return s.known[ref]
}

func (s *Succession) has(ref Ref) bool {
	return slices.ContainsFunc(s.chain, func(r *Roster) bool { return r.Ref() == ref })
}

// Countable reports whether a peer with this standing may be counted: all rosters that it uses must also be used by
// this node, or be older than the base. The whole protocol depends on this check: otherwise two parts that use
// different rosters could both find a majority with the help of one member.
func (s *Succession) Countable(st *Standing) bool { return countable(s.chain, nil, st) }

// countable is Countable for a chain with one more roster.
func countable(chain []*Roster, more *Roster, st *Standing) bool {
	for _, ref := range st.Chain {
		// A fresh node may have forgotten its promises: it counts only for members that use its list.
		if ref.IsZero() || ref.Epoch < chain[0].Epoch && !st.Fresh {
			continue
		}
		holds := more != nil && more.Ref() == ref
		for _, r := range chain {
			holds = holds || r.Ref() == ref
		}
		if !holds {
			return false
		}
	}
	return true
}

// take adds a roster to the chain, in the order of epochs. A fresh node has no chain to keep.
func (s *Succession) take(r *Roster) {
	s.version++
	s.shown.current = false
	if s.offer == r {
		s.offer = nil
	}
	if s.fresh {
		s.chain = []*Roster{r}
		return
	}
	i, _ := slices.BinarySearchFunc(s.chain, r.Ref(), func(h *Roster, ref Ref) int { return cmpEpoch(h.Ref(), ref) })
	s.chain = slices.Insert(slices.Clone(s.chain), i, r)
}

// rebase makes a roster the base and drops all before it.
func (s *Succession) rebase(r *Roster) {
	s.version++
	s.shown.current = false
	s.chain = append([]*Roster{r}, slices.DeleteFunc(slices.Clone(s.chain), func(h *Roster) bool { return h.Epoch <= r.Epoch })...)
	s.fresh, s.dirty = false, true
	if s.offer != nil && s.offer.Epoch <= r.Epoch {
		s.offer = nil
	}
	s.next = Ref{}
	for ref := range s.known {
		if ref.Epoch <= r.Epoch {
			delete(s.known, ref)
		}
	}
}

// Version returns a number that changes with every change of the held rosters.
func (s *Succession) Version() uint64 { return s.version }

// Directory returns a roster of all members of the held rosters, with the newest address of each; it always contains
// this node. All sets use its indices, so it changes as seldom as possible: present is returned while it lists all of
// these members, until a change is settled.
func (s *Succession) Directory(present *Roster, self Member) (*Roster, error) {
	if len(s.chain) == 1 && s.offer == nil && s.chain[0].Self >= 0 {
		return s.chain[0], nil
	}
	at := map[string]int{}
	var all []Member
	held := s.held()
	for _, r := range held {
		for _, m := range r.Members {
			if i, ok := at[m.Name]; ok {
				all[i] = m
				continue
			}
			at[m.Name] = len(all)
			all = append(all, m)
		}
	}
	if _, ok := at[self.Name]; !ok {
		all = append(all, self)
	}
	// It has the newest epoch: if no member leaves, it is the roster that is about to come into force, and need not
	// change again.
	d, err := New(held[len(held)-1].Epoch, all, self.Name)
	if err == nil && present != nil && present.Covers(d) {
		return present, nil
	}
	return d, err
}

// Covers reports whether all members of o are on r with the same addresses.
func (r *Roster) Covers(o *Roster) bool {
	return !slices.ContainsFunc(o.Members, func(m Member) bool {
		i, ok := r.Index(m.Name)
		return !ok || !maps.Equal(r.Members[i].Addresses, m.Addresses)
	})
}
