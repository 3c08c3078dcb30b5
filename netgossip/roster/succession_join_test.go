package roster

import (
	"errors"
	"testing"
)

// tell lets the sources of some nodes show the list of an epoch, which the nodes read.
func (p *party) tell(t *testing.T, epoch int, nodes ...int) {
	t.Helper()
	for _, i := range nodes {
		if err := p.nodes[i].Learn(p.list(epoch, i)); err != nil {
			t.Fatal(err)
		}
	}
}

// among lets nodes look at each other for a while, and hand over the lists that they have taken up.
func (p *party) among(nodes ...int) {
	for range 12 {
		for _, i := range nodes {
			p.handed(i, SetOf(nodes...))
			p.stored(i, true)
		}
	}
}

// Guard: a list that a fresh node has taken up is not a promise. Otherwise 0 could put the second list, with only
// itself, into force with the help of 1, which never heard that the first list is in force and leaves the second list
// for the third.
func TestFreshNodePutsNoListIntoForce(t *testing.T) {
	p := newParty(t, 3, []int{0}, []int{0, 1, 2}, []int{0}, []int{1, 2})
	p.tell(t, 1, 0)
	for range 4 { // 0 sees the new nodes, but they have not looked yet
		p.handed(0, FullSet(3))
		p.stored(0, true)
	}
	p.tell(t, 2, 1)
	p.among(1)
	p.tell(t, 3, 2)
	p.handed(2, SetOf(0))
	p.stored(2, true)
	if first := uint64(1); p.nodes[0].Base().Epoch != first || p.nodes[2].Base().Epoch != first || p.nodes[2].Fresh() || !p.nodes[1].Fresh() || p.nodes[1].Base().Epoch != 2 {
		t.Fatalf("not the history that was meant:\n%s", p)
	}
	p.tell(t, 2, 0)
	for range 4 {
		p.handed(0, SetOf(1))
		p.stored(0, true)
	}
	p.tell(t, 3, 1)
	p.among(1)
	p.among(1, 2)
	if bad := p.torn(); bad != "" {
		t.Error(bad)
	}
}

// Guard: two successive changes, the second one while the networks are split. 3 and 1 are the group, and the first list
// adds more nodes than the group has; these have gone on to the second list when 3 needs them.
func TestSecondChangeWhileSplit(t *testing.T) {
	p := newParty(t, 4, []int{1, 3}, []int{0, 2, 3}, []int{1, 2, 3})
	p.tell(t, 1, 1, 3)
	for len(p.nodes[3].Chain()) == 1 { // 3 is the first to take the list up, and no other node has heard of that yet
		for _, i := range []int{1, 3} {
			p.handed(i, FullSet(4))
			p.stored(i, true)
			if len(p.nodes[3].Chain()) > 1 {
				break
			}
		}
		if len(p.nodes[1].Chain()) > 1 {
			t.Fatalf("not the history that was meant:\n%s", p)
		}
	}
	p.tell(t, 2, 0, 1, 2, 3)
	p.among(2)
	p.among(0)
	p.restart(1, 2)
	if !p.nodes[0].Fresh() || !p.nodes[2].Fresh() || p.nodes[2].Base().Epoch != 2 || p.nodes[3].Base().Epoch != 0 || len(p.nodes[3].Chain()) != 2 {
		t.Fatalf("not the history that was meant:\n%s", p)
	}
	if p.meet(); p.leftBehind() != "" {
		t.Errorf("all are in contact, and %s\n%s", p.leftBehind(), p)
	}
	for _, i := range p.lists[2] {
		if s := p.nodes[i]; s.Fresh() || s.Base().Epoch != 2 || len(s.Chain()) != 1 {
			t.Errorf("%d has not come to the last list:\n%s", i, p)
		}
	}
}

// Guard: a chain is stored before the node uses it, and a fresh node that could not store it stays as it was.
func TestChainIsStoredBeforeItIsJoined(t *testing.T) {
	old, next := listOf(0, 0, 1, 2), listOf(1, 0, 0, 1, 2)
	s, err := NewSuccession(nil, next, majorityOf)
	if err != nil {
		t.Fatal(err)
	}
	c := &scene{t: t, s: s, peers: map[int]Standing{1: stands(false, nil, old, next)}}
	if m := c.look(); m.Fetch != old.Ref() || m.Holders != SetOf(1) || m.Save != nil {
		t.Fatalf("lacks the list in force: %+v", m)
	}
	if err := s.Hand(listOf(0, 0, 1, 2)); err != nil {
		t.Fatalf("the list in force, which leaves it out, is refused: %v", err)
	}
	for _, fails := range []error{errors.New("disk full"), nil} {
		m := c.look()
		if m.Save == nil || m.Save.Fresh || len(m.Save.Chain) != 2 || !s.Fresh() {
			t.Fatalf("%+v, fresh %v", m, s.Fresh())
		}
		if s.Saved(fails); s.Fresh() != (fails != nil) {
			t.Fatalf("after %v: fresh %v", fails, s.Fresh())
		}
	}
	if len(s.Chain()) != 2 || !s.Claims() {
		t.Errorf("%+v", s.Standing())
	}
}

// Guard: a list that has come into force while a chain was being stored stays in force.
func TestListInForceIsNotReplacedByAChain(t *testing.T) {
	old, next := listOf(0, 0, 1, 2), listOf(1, 0, 0, 1, 2)
	s, err := NewSuccession(nil, next, majorityOf)
	if err != nil {
		t.Fatal(err)
	}
	c := &scene{t: t, s: s, peers: map[int]Standing{1: stands(false, nil, old, next)}}
	c.look()
	if err := s.Hand(old); err != nil {
		t.Fatal(err)
	}
	if m := c.look(); m.Save == nil {
		t.Fatalf("%+v", m)
	}
	c.peers[1] = stands(false, nil, next)
	c.look()
	if s.Saved(nil); len(s.Chain()) != 1 || s.Base() != next {
		t.Errorf("went back to %+v", s.Standing())
	}
	if m := c.look(); m.Save == nil || len(m.Save.Chain) != 1 || m.Save.Fresh {
		t.Errorf("what is stored is older than what is held, and stays so: %+v", m)
	}
}

// During a change that cannot go on, a list is stored only if it helps.
func TestOnlyWhatHelpsIsStoredBesideAChange(t *testing.T) {
	old, wide, back := listOf(0, 0, 0, 1, 2), listOf(1, 0, 0, 1, 2, 3, 4, 5, 6, 7), listOf(2, 0, 0, 1, 2)
	s, err := NewSuccession(&Saved{Chain: []*Roster{old, wide}}, back, majorityOf)
	if err != nil {
		t.Fatal(err)
	}
	knows := stands(false, nil, old, wide)
	knows.Known = back.Ref()
	c := &scene{t: t, s: s, peers: map[int]Standing{1: knows, 2: knows}}
	if m := c.look(); m.Save != nil {
		t.Errorf("three of eight are no quorum with it either, and it is stored: %+v", m.Save)
	}
	for i := 3; i < 5; i++ {
		c.peers[i] = stands(true, nil, back)
	}
	if m := c.look(); m.Save == nil || m.Save.Offer != back {
		t.Errorf("five of eight are a quorum with it: %+v", m)
	}
}

// A fresh node keeps a list by which it is counted, but changes to another one that is in force.
func TestFreshNodeStaysWhereItIsCounted(t *testing.T) {
	old, one, two := listOf(0, 0, 1, 2), listOf(1, 0, 0, 1, 2), listOf(2, 0, 0, 1)
	s, err := NewSuccession(nil, one, majorityOf)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Learn(two); err != nil {
		t.Fatal(err)
	}
	c := &scene{t: t, s: s, peers: map[int]Standing{1: stands(false, nil, old, one)}}
	if m := c.look(); m.Save != nil {
		t.Errorf("1 counts it by the first list, and it stores %+v", m.Save)
	}
	c.peers[2] = stands(false, nil, two)
	if m := c.look(); m.Save == nil || m.Save.Offer != two {
		t.Errorf("the second list is in force: %+v", m)
	}
}

// Guard: a node that was removed and added again, and has heard of neither change, may be handed the list in between.
// It counts as removed until it has taken up the later list, which names it.
func TestOvertakenListIsHandedOver(t *testing.T) {
	old, without, again := listOf(0, 0, 0, 1, 2), listOf(1, 0, 1, 2), listOf(2, 0, 0, 1, 2)
	for name, tc := range map[string]struct {
		knows *Roster
		peer  Standing
		ok    bool
	}{
		"in force and overtaken": {again, stands(false, nil, without), true},
		"in force":               {old, stands(false, nil, without), false},
		"taken up":               {again, stands(false, nil, old, without), false},
	} {
		c := sceneOf(t, old)
		if err := c.s.Learn(tc.knows); err != nil {
			t.Fatal(err)
		}
		c.peers[1] = tc.peer
		c.look()
		if err := c.s.Hand(without); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
