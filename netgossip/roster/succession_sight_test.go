package roster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// shownParty returns a party whose nodes are shown lists by a source that does not number them. The nodes begin with
// one of these lists, or with their state on disk.
func shownParty(t *testing.T, lists [][]int, first ...int) *party {
	t.Helper()
	p := &party{lists: lists, nodes: make([]*Succession, len(first)), disk: make([]*Saved, len(first)), under: make([]*Saved, len(first))}
	for i, k := range first {
		p.disk[i] = &Saved{Fresh: true, Chain: []*Roster{listOf(0, i, lists[k]...)}}
		p.revive(i)
	}
	return p
}

func (p *party) revive(i int) {
	s, err := NewSuccession(p.disk[i], nil, majorityOf)
	if err != nil {
		panic(err)
	}
	p.nodes[i], p.under[i] = s, nil
}

// glance does what look does, for nodes that do not fetch lists: a missing list must be shown to them.
func (p *party) glance(i int, contact Set) Moves {
	contact.Remove(i)
	m := p.nodes[i].Advance(p.peers(i, contact))
	if m.Save != nil {
		p.under[i] = m.Save
	}
	return m
}

func (p *party) sight(i, list int, current bool) {
	p.nodes[i].Sight(listOf(0, i, p.lists[list]...), current)
}

// rounds lets all nodes look at all others, after they were shown a list, unless its number is negative.
func (p *party) rounds(n, list int) {
	for range n {
		for i := range p.nodes {
			if list >= 0 {
				p.sight(i, list, true)
			}
			p.glance(i, FullSet(len(p.nodes)))
			p.stored(i, true)
		}
	}
}

func (p *party) key() string {
	k := p.String()
	for i, s := range p.nodes {
		k += fmt.Sprintf("%d: %v %v:", i, s.chain[0].Members, s.pledged())
		for _, l := range s.shown.lists {
			k += fmt.Sprint(l.Members)
		}
	}
	return k
}

// Guard: founding. The test visits every reachable state of three nodes that remember nothing and are shown any of some
// lists, in any order, with any contact between them, including restarts. Any two of the lists have a common member:
// otherwise they would be two groups.
func TestOneListIsFounded(t *testing.T) {
	for _, lists := range [][][]int{
		{{0, 1}, {0, 1, 2}},
		{{0, 1}, {1, 2}},
		{{0}, {0, 1, 2}},
	} {
		t.Run(fmt.Sprint(lists), func(t *testing.T) {
			t.Parallel()
			if testing.Short() && len(lists[0])+len(lists[1]) > 4 {
				t.Skip("thousands of states")
			}
			first := make([]int, 3)
			for i := range first {
				first[i] = max(0, slices.IndexFunc(lists, func(l []int) bool { return slices.Contains(l, i) }))
			}
			p := shownParty(t, lists, first...)
			seen, queue, founded := map[string]bool{p.key(): true}, []*party{p}, 0
			visit := func(p *party) {
				if k := p.key(); !seen[k] {
					if bad := p.torn(); bad != "" {
						t.Fatal(bad)
					}
					seen[k], queue = true, append(queue, p)
				}
			}
			for len(queue) > 0 {
				p, queue = queue[0], queue[1:]
				for i := range p.nodes {
					for of := range 1 << len(p.nodes) {
						if of>>i&1 == 0 {
							q := p.twin()
							q.glance(i, subset(of, len(p.nodes)))
							q.stored(i, true)
							visit(q)
						}
					}
					for list := range lists {
						q := p.twin()
						q.sight(i, list, false)
						visit(q)
					}
					q := p.twin()
					q.revive(i)
					visit(q)
					if p.nodes[i].Claims() {
						founded++
					}
				}
			}
			if founded == 0 {
				t.Error("nothing is founded: the search shows nothing")
			}
			t.Logf("%d states, a list is in force %d times", len(seen), founded)
		})
	}
}

func (p *party) twin() *party {
	c := p.clone()
	for _, s := range c.nodes {
		s.shown.lists = slices.Clone(s.shown.lists)
	}
	return c
}

// Guard: numbers. Nodes are shown lists in any order, including old ones, number them, restart with the really stored
// state, and meet in any way: no cut leaves two quorate parts.
func TestRandomSightsLeaveOnePartQuorate(t *testing.T) {
	runs := 1000
	if testing.Short() {
		runs = 200
	}
	highest := uint64(0)
	for run := range runs {
		seed := uint64(run)
		rng := rand.New(rand.NewPCG(seed, 11))
		n := 2 + rng.IntN(5)
		var lists [][]int
		for range 2 + rng.IntN(3) {
			l := pick(rng, n)
			for slices.ContainsFunc(lists, func(o []int) bool { return !overlap(o, l) }) {
				l = append(l, rng.IntN(n))
				slices.Sort(l)
				l = slices.Compact(l)
			}
			lists = append(lists, l)
		}
		p := shownParty(t, lists, make([]int, n)...)
		for step := range 300 {
			i := rng.IntN(n)
			switch rng.IntN(12) {
			case 0, 1, 2:
				p.sight(i, rng.IntN(len(lists)), rng.IntN(2) == 0)
			case 3:
				if rng.IntN(2) == 0 && p.under[i] != nil { // it lands, and nobody is told
					p.disk[i] = p.under[i]
				}
				p.revive(i)
			case 4, 5, 6:
				p.stored(i, rng.IntN(4) > 0)
			default:
				contact := subset(rng.IntN(1<<n), n)
				if rng.IntN(2) == 0 {
					contact = FullSet(n)
				}
				p.glance(i, contact)
			}
			highest = max(highest, Generation(p.nodes[i].Base().Epoch))
			if bad := p.torn(); bad != "" {
				t.Fatalf("seed %d, step %d, lists %v: %s", seed, step, lists, bad)
			}
		}
	}
	if highest < 3 {
		t.Errorf("no later list than of generation %d came into force: the schedules show nothing", highest)
	}
}

func overlap(a, b []int) bool {
	return slices.ContainsFunc(a, func(i int) bool { return slices.Contains(b, i) })
}

// A source shows the present list to each node at a different moment, even while it changes. In the end the last list
// is in force everywhere, and until then no node that stays in the group loses its quorum.
func TestNodesThatReadAtDifferentMomentsAgree(t *testing.T) {
	for run := range 400 {
		seed := uint64(run)
		rng := rand.New(rand.NewPCG(seed, 13))
		n := 3 + rng.IntN(5)
		lists := [][]int{pick(rng, n)}
		for range 1 + rng.IntN(4) {
			lists = append(lists, oneMoreOrLess(rng, n, lists[len(lists)-1]))
		}
		p := shownParty(t, lists, make([]int, n)...)
		p.rounds(4, -1)
		type read struct {
			list    int
			version uint64
		}
		under, was, now := make([]*read, n), make([]bool, n), 0
		for step := range 400 * n {
			if step%(60+rng.IntN(20)) == 0 && now < len(lists)-1 && step < 200*n {
				now++
			}
			i := rng.IntN(n)
			switch s := p.nodes[i]; rng.IntN(4) {
			case 0: // begins to read, or has read
				if under[i] == nil {
					under[i] = &read{now, s.Version()}
				} else {
					p.sight(i, under[i].list, under[i].version == s.Version())
					under[i] = nil
				}
			default:
				p.glance(i, FullSet(n))
				p.stored(i, true)
				had := was[i]
				if was[i] = p.quorate(i, FullSet(n)); had && !was[i] && !s.Removed() {
					t.Fatalf("seed %d: %d has lost its quorum, lists %v\n%s", seed, i, lists, p)
				}
			}
		}
		last := listOf(0, 0, lists[len(lists)-1]...)
		for _, i := range lists[len(lists)-1] {
			if s := p.nodes[i]; s.Fresh() || s.Base().Digest != last.Digest || len(s.Chain()) != 1 || s.Base().Ref() != p.nodes[lists[len(lists)-1][0]].Base().Ref() {
				t.Fatalf("seed %d: %d has not come to the last list, lists %v\n%s", seed, i, lists, p)
			}
		}
	}
}

func oneMoreOrLess(rng *rand.Rand, n int, list []int) []int {
	if i := rng.IntN(n); !slices.Contains(list, i) {
		return append(slices.Clone(list), i)
	} else if len(list) > 1 {
		return slices.DeleteFunc(slices.Clone(list), func(k int) bool { return k == i })
	}
	return []int{list[0], (list[0] + 1) % n}
}

// Without communication, two nodes give the same list the same number, and different lists different numbers.
func TestNumbersFollowFromWhatIsRead(t *testing.T) {
	p := shownParty(t, [][]int{{0, 1, 2}, {0, 1}, {1, 2}}, 0, 0, 0)
	p.rounds(4, -1)
	known := func(i, list int) Ref {
		p.sight(i, list, true)
		p.glance(i, FullSet(3))
		for ref := range p.nodes[i].known {
			return ref
		}
		return p.nodes[i].store.Ref()
	}
	a, b, c := known(0, 1), known(1, 1), known(2, 2)
	if a != b || a == c || a.Epoch == c.Epoch || Generation(a.Epoch) != 1 {
		t.Errorf("two nodes were shown one list and number it %v and %v, a third another one: %v", a, b, c)
	}
}

// Guard: a list that was read before the present one came into force is not proposed again.
func TestListReadBeforeTheChangeIsNotProposed(t *testing.T) {
	p := shownParty(t, [][]int{{0, 1, 2}, {0, 1, 2, 3}}, 0, 0, 0, 1)
	p.rounds(4, -1)
	p.rounds(6, 1)
	if g := Generation(p.nodes[0].Base().Epoch); g != 1 || len(p.nodes[0].Chain()) != 1 {
		t.Fatalf("the list of four is not in force:\n%s", p)
	}
	p.sight(0, 0, false)
	p.rounds(3, -1)
	if p.nodes[0].Next() != nil || p.nodes[0].Offer() != nil || Generation(p.nodes[0].Base().Epoch) != 1 {
		t.Errorf("a list that was left is on its way back:\n%s", p)
	}
}

// A node that is shown another list than all the others delays a change, but does not cause one.
func TestWhatOneNodeIsShownChangesNothing(t *testing.T) {
	p := shownParty(t, [][]int{{0, 1, 2}, {1}}, 0, 0, 0)
	p.rounds(4, -1)
	for range 10 {
		p.sight(1, 1, true)
		p.rounds(1, -1)
		for i, s := range p.nodes {
			if s.Base().Size() != 3 || len(s.Chain()) != 1 || !p.quorate(i, FullSet(3)) {
				t.Fatalf("%d follows what was shown to one node:\n%s", i, p)
			}
		}
	}
	if p.nodes[1].Next() == nil {
		t.Error("it does not even know the list")
	}
	p.revive(1)
	p.rounds(1, -1)
	if s := p.nodes[1]; len(s.Chain()) != 1 || !p.quorate(0, subset(0b011, 3)) {
		t.Errorf("after a restart it goes by what nobody else knows:\n%s", p)
	}
}

// Guard: founding needs all members. Two of three may be new, while the third lives by an older list.
func TestFoundingNeedsEverybody(t *testing.T) {
	p := shownParty(t, [][]int{{0, 1, 2}, {0}}, 1, 0, 0)
	for range 4 {
		p.glance(0, Set{})
		p.stored(0, true)
		for i := 1; i < 3; i++ {
			p.glance(i, subset(0b110, 3))
			p.stored(i, true)
		}
	}
	if !p.nodes[0].Claims() || p.nodes[1].Claims() || p.nodes[2].Claims() {
		t.Errorf("new nodes founded what another one may live without:\n%s", p)
	}
	p.rounds(6, 0)
	for i, s := range p.nodes {
		if !s.Settled() || s.Base().Size() != 3 || Generation(s.Base().Epoch) != 1 {
			t.Errorf("%d does not join:\n%s", i, p)
		}
	}
}

// Guard: a pledge survives a restart and another shown list.
func TestPledgeIsKept(t *testing.T) {
	p := shownParty(t, [][]int{{0, 1}, {1, 2}}, 0, 0, 1)
	p.glance(1, subset(0b001, 3))
	p.stored(1, true)
	p.revive(1)
	p.sight(1, 1, true)
	if s := p.nodes[1]; !s.pledged() || s.chain[0].Digest != listOf(0, 1, 0, 1).Digest {
		t.Errorf("the pledge is gone:\n%s", p)
	}
}

// Guard: a node that begins without stored state may have been part of a later list's majority.
func TestNodeThatForgotIsNotCounted(t *testing.T) {
	s, err := NewSuccession(nil, listOf(0, 0, 0, 1, 2), majorityOf)
	if err != nil {
		t.Fatal(err)
	}
	s.rebase(listOf(5, 0, 0, 1, 2))
	forgot := stands(true, nil, listOf(0, 1, 0, 1, 2))
	slept := stands(false, nil, listOf(0, 1, 0, 1, 2))
	if s.Countable(&forgot) || !s.Countable(&slept) {
		t.Errorf("counted: one that forgot: %v, one that slept through a change: %v", s.Countable(&forgot), s.Countable(&slept))
	}
}
