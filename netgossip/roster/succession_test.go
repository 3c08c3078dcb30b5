package roster

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func majorityOf(r *Roster) int { return r.Quorum(0) }

// listOf returns the roster of an epoch for node self: nodes are named by their index.
func listOf(epoch uint64, self int, nodes ...int) *Roster {
	ms := make([]Member, len(nodes))
	for i, n := range nodes {
		ms[i].Name = fmt.Sprint(n)
	}
	r, err := Of(epoch, ms, fmt.Sprint(self))
	if err != nil {
		panic(err)
	}
	return r
}

func membersOf(r *Roster) Set {
	var s Set
	for _, m := range r.Members {
		s.Add(int(m.Name[0] - '0'))
	}
	return s
}

// party is a group of successions whose nodes meet in any way.
type party struct {
	lists [][]int // by epoch
	nodes []*Succession
	disk  []*Saved // the stored state of each node
	under []*Saved // what is being stored
	eager bool     // a node that learns a list announces it at once, before it has looked at other nodes
}

func newParty(t *testing.T, n int, lists ...[]int) *party {
	t.Helper()
	p := &party{lists: lists, nodes: make([]*Succession, n), disk: make([]*Saved, n), under: make([]*Saved, n)}
	for i := range n {
		epoch := slices.IndexFunc(lists, func(l []int) bool { return slices.Contains(l, i) })
		s, err := NewSuccession(nil, p.list(epoch, i), majorityOf)
		if err != nil {
			t.Fatal(err)
		}
		p.nodes[i] = s
	}
	for i := range n {
		p.disk[i] = &Saved{Fresh: p.nodes[i].fresh, Chain: p.nodes[i].chain}
	}
	return p
}

func (p *party) list(epoch, self int) *Roster { return listOf(uint64(epoch), self, p.lists[epoch]...) }

func (p *party) clone() *party {
	c := &party{lists: p.lists, eager: p.eager, nodes: make([]*Succession, len(p.nodes)), disk: slices.Clone(p.disk), under: slices.Clone(p.under)}
	for i, s := range p.nodes {
		d := *s
		d.known = maps.Clone(s.known)
		c.nodes[i] = &d
	}
	return c
}

func (p *party) peers(i int, contact Set) *Peers {
	return &Peers{Self: i, Contact: contact, Stands: p.stands, Members: membersOf}
}

func (p *party) stands(k int) Standing {
	st := p.nodes[k].Standing()
	if p.eager && st.Known.IsZero() {
		for ref := range p.nodes[k].known {
			if ref.Epoch > st.Known.Epoch {
				st.Known = ref
			}
		}
	}
	return st
}

// look lets a node look at its contacts; it gets the lists for which it asks.
func (p *party) look(i int, contact Set) {
	m := p.nodes[i].Advance(p.peers(i, contact))
	if !m.Fetch.IsZero() {
		if err := p.nodes[i].Learn(p.list(int(m.Fetch.Epoch), i)); err != nil {
			panic(err)
		}
	}
	if m.Save != nil {
		p.under[i] = m.Save
	}
}

// stored completes the storing of a node's state.
func (p *party) stored(i int, well bool) {
	if p.under[i] == nil {
		return
	}
	var err error
	if well {
		p.disk[i] = p.under[i]
	} else {
		err = errors.New("disk full")
	}
	p.under[i] = nil
	p.nodes[i].Saved(err)
}

func (p *party) restart(i int, epoch int) {
	s, err := NewSuccession(p.disk[i], p.list(epoch, i), majorityOf)
	if err != nil {
		panic(err)
	}
	p.nodes[i], p.under[i] = s, nil
}

func (p *party) quorate(i int, among Set) bool {
	among.Remove(i)
	return p.nodes[i].Claims() && p.nodes[i].quorate(p.peers(i, among), nil)
}

// torn returns a partition in which both parts have a quorate node, or "".
func (p *party) torn() string {
	n := len(p.nodes)
	for part := 1; part < 1<<(n-1); part++ {
		var sides [2]Set
		for i := range n {
			sides[part>>i&1].Add(i)
		}
		var live [2]int
		for k, side := range sides {
			live[k] = -1
			for i := range side.All() {
				if p.quorate(i, side) {
					live[k] = i
				}
			}
		}
		if live[0] >= 0 && live[1] >= 0 {
			return fmt.Sprintf("cut off from each other, %d and %d are both quorate\n%s", live[0], live[1], p)
		}
	}
	return ""
}

func (p *party) String() string {
	var b strings.Builder
	for i, s := range p.nodes {
		fmt.Fprintf(&b, "%d:%v", i, s.fresh)
		for _, r := range s.chain {
			fmt.Fprintf(&b, " %d", r.Epoch)
		}
		if s.offer != nil {
			fmt.Fprintf(&b, " offer %d", s.offer.Epoch)
		}
		for _, ref := range slices.SortedFunc(maps.Keys(s.known), cmpEpoch) {
			fmt.Fprintf(&b, " knows %d", ref.Epoch)
		}
		b.WriteString(";\n")
	}
	return b.String()
}

func subset(of, n int) Set {
	var s Set
	for i := range n {
		if of>>i&1 == 1 {
			s.Add(i)
		}
	}
	return s
}

// The same as TestNoTwoPartsAreQuorate at random, with more nodes and changes, stores that are slow or fail, and
// restarts with the really stored state.
func TestRandomChangesLeaveOnePartQuorate(t *testing.T) {
	runs := 1000
	if testing.Short() {
		runs = 200
	}
	for run := range runs {
		seed := uint64(run)
		rng := rand.New(rand.NewPCG(seed, 7))
		n := 4 + rng.IntN(4)
		lists := [][]int{pick(rng, n)}
		for range 1 + rng.IntN(3) {
			lists = append(lists, pick(rng, n))
		}
		if last := lists[len(lists)-1]; len(last) < n {
			for i := range n { // every node is on some list
				if !slices.ContainsFunc(lists, func(l []int) bool { return slices.Contains(l, i) }) {
					lists[len(lists)-1] = append(lists[len(lists)-1], i)
				}
			}
		}
		p := newParty(t, n, lists...)
		for step := range 200 {
			i := rng.IntN(n)
			switch rng.IntN(10) {
			case 0:
				if err := p.nodes[i].Learn(p.list(rng.IntN(len(lists)), i)); err != nil {
					t.Fatal(err)
				}
			case 1:
				if rng.IntN(2) == 0 && p.under[i] != nil { // it lands, and nobody is told
					p.disk[i] = p.under[i]
				}
				p.restart(i, rng.IntN(len(lists)))
			case 2, 3, 4:
				p.stored(i, rng.IntN(4) > 0)
			default:
				contact := subset(rng.IntN(1<<n), n)
				if rng.IntN(2) == 0 {
					contact = FullSet(n)
				}
				contact.Remove(i)
				p.look(i, contact)
			}
			if bad := p.torn(); bad != "" {
				t.Fatalf("seed %d, step %d, lists %v: %s", seed, step, lists, bad)
			}
		}
	}
}

func pick(rng *rand.Rand, n int) []int { return rng.Perm(n)[:1+rng.IntN(n)] }

// While all nodes are in contact, none loses its quorum even for a moment, in whatever order the nodes look, and the
// change completes.
func TestHealthyGroupChangesWithoutLosingQuorum(t *testing.T) {
	for run := range 300 {
		seed := uint64(run)
		rng := rand.New(rand.NewPCG(seed, 9))
		n := 2 + rng.IntN(6)
		old := pick(rng, n)
		next := pick(rng, n)
		if rng.IntN(2) == 0 { // one node joins or leaves, the usual case
			next = slices.Clone(old)
			if i := rng.IntN(n); slices.Contains(old, i) && len(old) > 1 {
				next = slices.DeleteFunc(next, func(k int) bool { return k == i })
			} else if !slices.Contains(old, i) {
				next = append(next, i)
			}
		}
		lists := [][]int{old, next}
		for i := range n {
			if !slices.Contains(old, i) && !slices.Contains(next, i) {
				lists[1] = append(lists[1], i)
			}
		}
		p := newParty(t, n, lists...)
		told := p.nodes[old[rng.IntN(len(old))]]
		if err := told.Learn(listOf(1, int(told.chain[0].Members[told.chain[0].Self].Name[0]-'0'), lists[1]...)); err != nil {
			t.Fatal(err)
		}
		was := make([]bool, n) // at the node's own last look: in between it decides nothing
		for range 60 * n {
			i := rng.IntN(n)
			contact := FullSet(n)
			contact.Remove(i)
			p.look(i, contact)
			p.stored(i, true)
			had := was[i]
			if was[i] = p.quorate(i, FullSet(n)); had && !was[i] && !p.nodes[i].Removed() {
				t.Fatalf("seed %d: %d has lost its quorum, lists %v\n%s", seed, i, lists, p)
			}
		}
		for i, s := range p.nodes {
			if s.Fresh() || s.Base().Epoch != 1 || len(s.Chain()) != 1 {
				t.Fatalf("seed %d: %d has not come to the end, lists %v\n%s", seed, i, lists, p)
			}
		}
	}
}
