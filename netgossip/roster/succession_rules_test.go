package roster

import (
	"errors"
	"testing"
)

// stands builds a standing by hand.
func stands(fresh bool, offer *Roster, chain ...*Roster) Standing {
	st := Standing{Fresh: fresh}
	for i, r := range chain {
		st.Chain[i] = r.Ref()
	}
	if offer != nil {
		st.Offer = offer.Ref()
	}
	return st
}

// scene lets node 0 look at peers whose standings are given.
type scene struct {
	t     *testing.T
	s     *Succession
	peers map[int]Standing
}

func (c *scene) look() Moves {
	c.t.Helper()
	p := &Peers{Stands: func(i int) Standing { return c.peers[i] }, Members: membersOf}
	for i := range c.peers {
		p.Contact.Add(i)
	}
	return c.s.Advance(p)
}

func sceneOf(t *testing.T, own *Roster) *scene {
	t.Helper()
	s, err := NewSuccession(&Saved{Chain: []*Roster{own}}, own, majorityOf)
	if err != nil {
		t.Fatal(err)
	}
	return &scene{t: t, s: s, peers: map[int]Standing{}}
}

// offer makes r the stored offer of node 0.
func (c *scene) offer(r *Roster) {
	c.t.Helper()
	if err := c.s.Learn(r); err != nil {
		c.t.Fatal(err)
	}
	told := c.peers
	c.peers = map[int]Standing{}
	for i, st := range told {
		st.Known = r.Ref()
		c.peers[i] = st
	}
	if m := c.look(); m.Save == nil || m.Save.Offer != r {
		c.t.Fatalf("the offer is not stored: %+v", m)
	}
	c.peers = told
	c.s.Saved(nil)
}

// Guard: an offer that is being replaced on disk must not be taken up: after a restart it would be missing, although it
// was announced.
func TestReplacedOfferIsWithdrawnFirst(t *testing.T) {
	old, one, two := listOf(0, 0, 0, 1, 2), listOf(1, 0, 0, 1), listOf(2, 0, 0, 1, 2, 3)
	c := sceneOf(t, old)
	c.peers[1], c.peers[2] = stands(false, nil, old), stands(false, nil, old)
	c.offer(one)
	if err := c.s.Learn(two); err != nil {
		t.Fatal(err)
	}
	for i, st := range c.peers {
		st.Known = two.Ref()
		c.peers[i] = st
	}
	if m := c.look(); m.Save == nil || m.Save.Offer != two {
		t.Fatalf("the newer offer is not stored: %+v", m)
	}
	c.peers[1] = stands(false, nil, old, one)
	if m := c.look(); m.Changed || len(c.s.Chain()) != 1 || !c.s.Standing().Offer.IsZero() {
		t.Errorf("the withdrawn offer counts: %+v, %+v", m, c.s.Standing())
	}
}

// Guard: a stored list is taken up after a restart, and a node that does not know the list cannot follow.
func TestListIsStoredOnlyWhenAllKnowIt(t *testing.T) {
	old, next := listOf(0, 0, 0, 1, 2), listOf(1, 0, 0, 1, 2, 3)
	c := sceneOf(t, old)
	c.peers[1], c.peers[2] = stands(false, next, old), stands(false, nil, old)
	c.peers[3] = stands(true, nil, listOf(7, 0, 3)) // cannot be counted, so no node waits for it
	if err := c.s.Learn(next); err != nil {
		t.Fatal(err)
	}
	if m := c.look(); m.Save != nil || c.s.Next() != next || c.s.Standing().Known != next.Ref() {
		t.Fatalf("2 does not know the list: %+v, %+v", m, c.s.Standing())
	}
	knows := stands(false, nil, old)
	knows.Known = next.Ref()
	c.peers[2] = knows
	if m := c.look(); m.Save == nil || m.Save.Offer != next {
		t.Fatalf("all know the list, and it is not stored: %+v", m)
	}
	c = sceneOf(t, old)
	c.peers[1], c.peers[2] = stands(false, nil, old, next), stands(false, nil, old)
	if err := c.s.Learn(next); err != nil {
		t.Fatal(err)
	}
	if m := c.look(); m.Save == nil {
		t.Fatalf("1 has taken the list up, and it is not stored: %+v", m)
	}
}

// Guard: a node that was removed does not claim quorum.
func TestRemovedNodeClaimsNothing(t *testing.T) {
	old, without := listOf(0, 0, 0, 1, 2), listOf(1, 0, 1, 2)
	c := sceneOf(t, old)
	c.peers[1], c.peers[2] = stands(false, nil, old), stands(false, nil, old)
	c.offer(without)
	c.peers[1] = stands(false, nil, without)
	if m := c.look(); !m.Changed || !c.s.Removed() || c.s.Claims() {
		t.Errorf("%+v, removed %v, claims %v", m, c.s.Removed(), c.s.Claims())
	}
}

// A node does not follow a change while it would lose its quorum by the old list.
func TestChangeThatCostsTheQuorumIsNotFollowed(t *testing.T) {
	old, wide := listOf(0, 0, 0, 1, 2), listOf(1, 0, 0, 1, 2, 3, 4, 5, 6, 7)
	c := sceneOf(t, old)
	c.peers[1], c.peers[2] = stands(false, nil, old), stands(false, nil, old)
	c.offer(wide)
	c.peers[1] = stands(false, nil, old, wide)
	if c.look(); len(c.s.Chain()) != 1 {
		t.Error("followed although three of eight are no quorum")
	}
	for i := 3; i < 5; i++ {
		c.peers[i] = stands(true, nil, wide)
	}
	if c.look(); len(c.s.Chain()) != 2 {
		t.Error("not followed although five of eight are in contact")
	}
}

// The first node to take a list up waits for all nodes that it counts.
func TestFirstWaitsForAllThatItCounts(t *testing.T) {
	old, next := listOf(0, 0, 0, 1, 2), listOf(1, 0, 0, 1, 2, 3)
	c := sceneOf(t, old)
	c.peers[1], c.peers[2] = stands(false, next, old), stands(false, nil, old)
	c.offer(next)
	if c.look(); len(c.s.Chain()) != 1 {
		t.Error("node 2 does not have the list yet")
	}
	if got := c.s.Waiting(&Peers{Contact: SetOf(1, 2), Stands: func(i int) Standing { return c.peers[i] }, Members: membersOf}); got != SetOf(2, 3) {
		t.Errorf("waiting for %v", got)
	}
	c.peers[2] = stands(false, next, old)
	if m := c.look(); !m.Changed || len(c.s.Chain()) != 2 {
		t.Errorf("all are ready: %+v", m)
	}
}

// A fresh node waits for a statement that its list is in force; an offer is not enough.
func TestFreshNodeWaitsForItsListToBeInForce(t *testing.T) {
	old, next := listOf(0, 0, 1, 2), listOf(1, 0, 0, 1, 2)
	s, err := NewSuccession(nil, next, majorityOf)
	if err != nil {
		t.Fatal(err)
	}
	c := &scene{t: t, s: s, peers: map[int]Standing{1: stands(false, next, old), 2: stands(true, nil, next)}}
	if m := c.look(); m.Changed || !s.Fresh() {
		t.Errorf("%+v", m)
	}
	c.peers[1] = stands(false, nil, old, next)
	if c.look(); !s.Fresh() || s.Claims() {
		t.Error("taken up by others is not in force")
	}
	c.peers[1] = stands(false, nil, next)
	if m := c.look(); !m.Changed || s.Fresh() || !s.Claims() {
		t.Errorf("%+v", m)
	}
}

func TestEpochNamesOneList(t *testing.T) {
	old, one, other := listOf(0, 0, 0, 1), listOf(1, 0, 0, 1, 2), listOf(1, 0, 0, 1, 3)
	c := sceneOf(t, old)
	if err := c.s.Learn(listOf(0, 0, 0, 2)); !errors.Is(err, ErrEpochTaken) {
		t.Errorf("the epoch in force: %v", err)
	}
	c.peers[1] = stands(false, nil, old)
	c.offer(one)
	if err := c.s.Learn(other); !errors.Is(err, ErrEpochTaken) {
		t.Errorf("the epoch on offer: %v", err)
	}
	c.peers[1] = stands(false, nil, listOf(0, 0, 0, 2))
	if m := c.look(); m.Rival != 1 {
		t.Errorf("rival %d", m.Rival)
	}
	if st := c.peers[1]; c.s.Countable(&st) {
		t.Error("a peer with another list of the same epoch is counted")
	}
}

func TestWhatASuccessionRefusesToContinue(t *testing.T) {
	a, b := listOf(1, 0, 0, 1), listOf(2, 0, 0, 2)
	for name, saved := range map[string]*Saved{"nothing": {}, "not in order": {Chain: []*Roster{b, a}}, "too many": {Chain: []*Roster{a, b, a, b, a}}} {
		if _, err := NewSuccession(saved, a, majorityOf); err == nil {
			t.Errorf("%s: continued", name)
		}
	}
}

func TestSteadySuccessionDoesNotAllocate(t *testing.T) {
	old := listOf(0, 0, 0, 1, 2)
	c := sceneOf(t, old)
	plain := stands(false, nil, old)
	p := &Peers{Contact: SetOf(1, 2), Stands: func(int) Standing { return plain }, Members: membersOf}
	c.s.Advance(p)
	if n := testing.AllocsPerRun(100, func() { c.s.Advance(p) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Guard: a source that shows ever more lists does not fill the memory. The latest list, and the one that has to be
// stored, are kept.
func TestFewListsAreKnown(t *testing.T) {
	s, err := NewSuccession(nil, listOf(0, 0, 0, 1, 2), majorityOf)
	if err != nil {
		t.Fatal(err)
	}
	for epoch := uint64(1); epoch <= 10_000; epoch++ {
		r := listOf(epoch, 0, 0, 1, 2, 3)
		if err := s.Learn(r); err != nil || s.Lookup(r.Ref()) == nil {
			t.Fatal(epoch, err)
		}
		if epoch == 7 {
			s.next = r.Ref()
		}
	}
	if len(s.known) > maxKnown || s.Next() == nil || s.Next().Epoch != 7 {
		t.Errorf("%d lists are known, %v is to be stored", len(s.known), s.next)
	}
}
