package roster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// handed does what glance does, for nodes that hand over the lists that they have taken up: m.Holders are asked in any
// order.
func (p *party) handed(i int, contact Set) Moves {
	m := p.glance(i, contact)
	for k := range m.Holders.All() {
		r := p.heldBy(p.nodes[k].HandsOver(), m.Fetch)
		if r == nil {
			panic(fmt.Sprintf("%d says that %d has taken %v up, and it does not hand it over\n%s", i, k, m.Fetch, p))
		}
		own, err := Of(r.Epoch, r.Members, fmt.Sprint(i))
		if err != nil {
			panic(err)
		}
		_ = p.nodes[i].Hand(own) // refused: it leaves the node out
		break
	}
	return m
}

func (p *party) heldBy(held []*Roster, ref Ref) *Roster {
	if i := slices.IndexFunc(held, func(r *Roster) bool { return r.Ref() == ref }); i >= 0 {
		return held[i]
	}
	return nil
}

// missed returns a group of three: 0 and 1 took up a list that 2 never heard of, and 1 is gone before the list came
// into force. No source shows the list any more.
func missed(t *testing.T) *party {
	t.Helper()
	p := newParty(t, 3, []int{0, 1, 2}, []int{0, 1, 2})
	two := SetOf(0, 1)
	for _, i := range []int{0, 1} {
		if err := p.nodes[i].Learn(p.list(1, i)); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		for _, i := range []int{0, 1} {
			if i == 0 || p.nodes[1].Offer() == nil { // 0 is the first to take it up, and 1 is gone
				p.glance(i, two)
				p.stored(i, true)
			}
		}
	}
	if len(p.nodes[0].Chain()) != 2 || p.nodes[2].Base().Epoch != 0 {
		t.Fatalf("the list is not taken up by 0 alone:\n%s", p)
	}
	return p
}

// A list that some nodes took up, but that was replaced before it came into force, is not in any source any more. A
// node that missed it must not stay uncounted for ever.
func TestMissedListIsHandedOver(t *testing.T) {
	p := missed(t)
	for range 10 {
		for _, i := range []int{0, 2} {
			p.handed(i, SetOf(0, 2))
			p.stored(i, true)
		}
	}
	for _, i := range []int{0, 2} {
		if s := p.nodes[i]; !p.quorate(i, SetOf(0, 2)) || s.Base().Epoch != 1 || len(s.Chain()) != 1 {
			t.Errorf("%d is quorate: %v, and has not come to the list:\n%s", i, p.quorate(i, SetOf(0, 2)), p)
		}
	}
}

// The reason for handing over: the node's own source cannot show the list.
func TestMissedListIsInNoSource(t *testing.T) {
	p := missed(t)
	for range 10 {
		for _, i := range []int{0, 2} {
			p.glance(i, SetOf(0, 2))
			p.stored(i, true)
		}
	}
	if p.quorate(2, SetOf(0, 2)) {
		t.Errorf("2 counts a node by a list that it does not have:\n%s", p)
	}
}

// Guard: lists that no node has taken up are not handed over. A fresh node neither hands its lists over nor is handed
// lists that it lacks.
func TestOnlyWhatWasTakenUpIsHandedOver(t *testing.T) {
	old, next := listOf(0, 0, 0, 1, 2), listOf(1, 0, 0, 1, 2)
	for name, st := range map[string]Standing{
		"offered":                {Chain: [MaxChain]Ref{old.Ref()}, Offer: next.Ref()},
		"known":                  {Chain: [MaxChain]Ref{old.Ref()}, Known: next.Ref()},
		"taken up by a new node": stands(true, nil, next),
	} {
		c := sceneOf(t, old)
		c.peers[1] = st
		if m := c.look(); m.Fetch != next.Ref() || !m.Holders.IsEmpty() {
			t.Errorf("%s: %+v", name, m)
		}
	}
	c := sceneOf(t, old)
	c.peers[1], c.peers[2] = stands(false, nil, old, next), stands(false, next, old)
	if m := c.look(); m.Fetch != next.Ref() || m.Holders != SetOf(1) {
		t.Errorf("taken up by 1: %+v", m)
	}
	c.offer(next)
	if got := c.s.HandsOver(); len(got) != 1 || got[0] != old {
		t.Errorf("gives %v, and has but stored the next list", got)
	}

	s, err := NewSuccession(&Saved{Fresh: true, Chain: []*Roster{old}}, nil, majorityOf)
	if err != nil {
		t.Fatal(err)
	}
	fresh := &scene{t: t, s: s, peers: map[int]Standing{1: stands(false, nil, next)}}
	if m := fresh.look(); m.Fetch != next.Ref() || !m.Holders.IsEmpty() || len(s.HandsOver()) != 0 {
		t.Errorf("a node that remembers nothing is handed lists, or hands them over: %+v, %v", m, s.HandsOver())
	}
	if err := s.Hand(next); !errors.Is(err, errHandedFresh) {
		t.Errorf("it takes one: %v", err)
	}
}

// Guard: no node is removed, or cut off, because of another node's list.
func TestListWithoutOwnNodeIsNotTakenFromAPeer(t *testing.T) {
	moved, err := Of(2, []Member{{Name: "0", Addresses: map[string]string{"a": "10.0.0.9"}}, {Name: "1"}}, "0")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*Roster{"left out": listOf(1, 0, 1, 2), "elsewhere": moved} {
		c := sceneOf(t, listOf(0, 0, 0, 1, 2))
		if err := c.s.Hand(r); !errors.Is(err, errHandedSelf) || c.s.Lookup(r.Ref()) != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Guard: a node that is alone with a list does not store it: after a restart it would use a list that no other node has
// ever heard of.
func TestListIsNotStoredAlone(t *testing.T) {
	old, next := listOf(0, 0, 0, 1, 2), listOf(1, 0, 0, 1, 2, 3)
	knows := stands(false, nil, old)
	knows.Known = next.Ref()
	c := sceneOf(t, old)
	if err := c.s.Learn(next); err != nil {
		t.Fatal(err)
	}
	if m := c.look(); m.Save != nil {
		t.Errorf("stored alone: %+v", m)
	}
	c.peers[3] = knows // only on the next list
	if m := c.look(); m.Save != nil {
		t.Errorf("stored with one that is no member yet: %+v", m)
	}
	c.peers[1] = knows
	if m := c.look(); m.Save == nil || m.Save.Offer != next {
		t.Errorf("two of three know it, and it is not stored: %+v", m)
	}

	// A node that was left behind does not wait for other nodes that were also left behind.
	wide := listOf(0, 0, 0, 1, 2, 4, 5)
	c = sceneOf(t, wide)
	later := listOf(3, 0, 0, 1, 6)
	if err := c.s.Learn(later); err != nil {
		t.Fatal(err)
	}
	st := stands(false, nil, next)
	st.Known = later.Ref()
	c.peers[1] = st
	if m := c.look(); m.Save == nil || m.Save.Offer != later {
		t.Errorf("1 goes by a later list and knows the next: %+v", m)
	}
}

// Guard: like TestRandomChangesLeaveOnePartQuorate and TestRandomSightsLeaveOnePartQuorate, but nodes hand over the
// lists that they have taken up: no cut leaves two quorate parts. With sights, lists come without numbers.
func TestHandedListsLeaveOnePartQuorate(t *testing.T) {
	runs, taken := 1000, 0
	if testing.Short() {
		runs = 200
	}
	for run := range runs {
		seed := uint64(run)
		rng := rand.New(rand.NewPCG(seed, 17))
		n, sights := 3+rng.IntN(4), run%2 == 0
		lists := [][]int{pick(rng, n)}
		for range 2 + rng.IntN(2) {
			l := oneMoreOrLess(rng, n, lists[len(lists)-1])
			for _, o := range lists { // lists without a common member are two groups
				if !overlap(o, l) {
					l = append(l, o[0])
				}
			}
			lists = append(lists, l)
		}
		for i := range n {
			if !slices.ContainsFunc(lists, func(l []int) bool { return slices.Contains(l, i) }) {
				lists[0] = append(lists[0], i)
			}
		}
		var p *party
		if sights {
			p = shownParty(t, lists, make([]int, n)...)
		} else {
			p = newParty(t, n, lists...)
		}
		for step := range 300 {
			i := rng.IntN(n)
			switch rng.IntN(12) {
			case 0, 1:
				if k := rng.IntN(len(lists)); sights {
					p.sight(i, k, rng.IntN(2) == 0)
				} else if err := p.nodes[i].Learn(p.list(k, i)); err != nil {
					t.Fatal(err)
				}
			case 2:
				if rng.IntN(2) == 0 && p.under[i] != nil { // it lands, and nobody is told
					p.disk[i] = p.under[i]
				}
				p.revive(i)
			case 3, 4, 5:
				p.stored(i, rng.IntN(4) > 0)
			default:
				contact := subset(rng.IntN(1<<n), n)
				if rng.IntN(2) == 0 {
					contact = FullSet(n)
				}
				if m := p.handed(i, contact); !m.Holders.IsEmpty() {
					taken++
				}
			}
			if bad := p.torn(); bad != "" {
				t.Fatalf("seed %d, step %d, lists %v: %s", seed, step, lists, bad)
			}
		}
	}
	if taken < runs/4 {
		t.Errorf("%d times was a list handed over: the schedules show nothing", taken)
	}
}
