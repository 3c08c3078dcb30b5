package roster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// deceived is a party with a lying source: it shows each node any list at any time.
type deceived struct {
	*party
	founders []string
	text     map[Ref][]int // members of every list that was ever shown
}

func (d *deceived) begin(i int, list []int) {
	d.disk[i] = &Saved{Fresh: true, Chain: []*Roster{d.made(0, i, list)}}
	d.again(i)
}

func (d *deceived) again(i int) {
	d.revive(i)
	d.nodes[i].FoundOnlyWith(d.founders)
}

func (d *deceived) made(epoch uint64, self int, list []int) *Roster {
	r := listOf(epoch, self, list...)
	d.text[r.Ref()] = list
	return r
}

// shown handles a list of the controller like the agent: a node without a list in force waits until the list is
// founded.
func (d *deceived) shown(i int, epoch uint64, list []int) {
	if s := d.nodes[i]; s.Fresh() && s.Base().Epoch == 0 {
		s.Sight(d.made(0, i, list), false)
	} else {
		_ = s.Learn(d.made(epoch, i, list)) // refused: another list has the epoch
	}
}

// lives reports whether a node would be quorate with the nodes of a part. It uses the nodes' announcements, and shares
// no code with them.
func (d *deceived) lives(i int, part map[int]bool) bool {
	mine := d.nodes[i].Standing()
	if mine.Fresh || mine.Chain[1] == (Ref{}) && !slices.Contains(d.text[mine.Chain[0]], i) {
		return false
	}
	goesBy := map[Ref]bool{{}: true}
	for _, ref := range mine.Chain {
		goesBy[ref] = true
	}
	for _, ref := range mine.Chain {
		votes := 0
		for _, k := range d.text[ref] {
			theirs := d.nodes[k].Standing()
			counted := part[k]
			for _, r := range theirs.Chain {
				counted = counted && (goesBy[r] || r.Epoch < mine.Chain[0].Epoch && !theirs.Fresh)
			}
			if k == i || counted {
				votes++
			}
		}
		if ref != (Ref{}) && 2*votes <= len(d.text[ref]) {
			return false
		}
	}
	return true
}

// apart returns two nodes that are quorate although they are cut off from each other, or "".
func (d *deceived) apart() string {
	n := len(d.nodes)
	for cut := 1; cut < 1<<(n-1); cut++ {
		sides := [2]map[int]bool{{}, {}}
		for i := range n {
			sides[cut>>i&1][i] = true
		}
		live := [2]int{-1, -1}
		for k, side := range sides {
			for i := range side {
				if d.lives(i, side) {
					live[k] = i
				}
			}
		}
		if live[0] >= 0 && live[1] >= 0 {
			return fmt.Sprintf("%d and %d, cut off from each other, are both quorate; founders %v\n%s", live[0], live[1], d.founders, d.party)
		}
	}
	return ""
}

func anyList(rng *rand.Rand, n, with int) []int {
	l := pick(rng, n)
	if !slices.Contains(l, with) && rng.IntN(8) > 0 {
		l = append(l, with)
	}
	slices.Sort(l)
	return l
}

// Guard: founders. A lying source shows any list to any node, at a first start and later, and nodes restart in between:
// no cut leaves two quorate parts. In half of the runs no list is changed, but nodes also lose their disks, except for
// one of the founders.
func TestSourceThatLiesFoundsOneGroup(t *testing.T) {
	runs := 1000
	if testing.Short() {
		runs = 200
	}
	founded, changed, joined, lost := 0, 0, 0, 0
	for run := range runs {
		seed := uint64(run)
		rng := rand.New(rand.NewPCG(seed, 17))
		n := 2 + rng.IntN(5)
		d := &deceived{party: &party{nodes: make([]*Succession, n), disk: make([]*Saved, n), under: make([]*Saved, n)}, text: map[Ref][]int{}}
		who := pick(rng, n)
		for _, i := range who {
			d.founders = append(d.founders, fmt.Sprint(i))
		}
		faithful, losses := who[0], run%2 == 0
		var pool [][]int // few lists, so that nodes are often shown the same list
		for range 2 + rng.IntN(3) {
			pool = append(pool, anyList(rng, n, rng.IntN(n)))
		}
		pool = append(pool, slices.Sorted(slices.Values(who)))
		one := func(i int) []int {
			for range 20 {
				if l := pool[rng.IntN(len(pool))]; slices.Contains(l, i) {
					return l
				}
			}
			return anyList(rng, n, i)
		}
		for i := range n {
			l := one(i)
			if !slices.Contains(l, i) {
				l = []int{i}
			}
			d.begin(i, l)
		}
		for step := range 250 {
			i := rng.IntN(n)
			switch rng.IntN(12) {
			case 0, 1, 2:
				if !losses || d.nodes[i].Fresh() && d.nodes[i].Base().Epoch == 0 {
					d.shown(i, uint64(1+rng.IntN(6)), one(i))
				}
			case 3:
				if rng.IntN(2) == 0 && d.under[i] != nil { // it is stored, but the node does not learn it
					d.disk[i] = d.under[i]
				}
				d.again(i)
			case 4:
				if losses && i != faithful && rng.IntN(4) == 0 {
					d.begin(i, append([]int{i}, slices.DeleteFunc(slices.Clone(one(i)), func(k int) bool { return k == i })...))
					lost++
				}
			case 5, 6:
				d.stored(i, rng.IntN(4) > 0)
			default:
				contact := subset(rng.IntN(1<<n), n)
				if rng.IntN(2) == 0 {
					contact = FullSet(n)
				}
				was := d.nodes[i].Fresh()
				d.glance(i, contact)
				if s := d.nodes[i]; was && !s.Fresh() {
					founded++
					joined += min(int(s.Base().Epoch), 1)
				} else if s.Base().Epoch > 0 && !s.Fresh() {
					changed++
				}
			}
			if bad := d.apart(); bad != "" {
				t.Fatalf("seed %d, step %d: %s", seed, step, bad)
			}
		}
	}
	if founded < runs/4 || changed == 0 || joined == 0 || lost == 0 {
		t.Errorf("%d founded, %d steps by a later list, %d joined one, %d lost disks: the schedules show little", founded, changed, joined, lost)
	}
	t.Logf("%d runs: %d times a node came to a list in force, %d times to a later one, %d lost disks", runs, founded, joined, lost)
}

// A node without named founders founds no group, but joins a list that others have in force.
func TestWithoutFoundersNothingIsFounded(t *testing.T) {
	p := shownParty(t, [][]int{{0, 1, 2}, {0, 1}}, 0, 0, 0)
	p.nodes[2].FoundOnlyWith(nil)
	p.rounds(4, -1)
	for i, s := range p.nodes {
		if !s.Fresh() {
			t.Errorf("%d goes by a list that one of its members has not founded:\n%s", i, p)
		}
	}
	if bad := p.nodes[2].Unfounded(); bad == "" || p.nodes[0].Unfounded() != "" {
		t.Errorf("%q, %q", bad, p.nodes[0].Unfounded())
	}
	q := shownParty(t, [][]int{{0, 1}, {0, 1, 2}}, 0, 0, 1)
	q.nodes[2].FoundOnlyWith([]string{"2", "0"})
	q.rounds(4, -1)
	q.rounds(6, 1)
	for i, s := range q.nodes {
		if !s.Settled() || s.Base().Size() != 3 {
			t.Errorf("%d does not go by the list of three:\n%s", i, q)
		}
	}
	if bad := q.nodes[2].Unfounded(); bad != "" {
		t.Error(bad)
	}
	q.nodes[2] = shownParty(t, [][]int{{0, 2}}, 0, 0, 0).nodes[2]
	q.nodes[2].FoundOnlyWith([]string{"2", "0", "7", "9"})
	if bad := q.nodes[2].Unfounded(); bad != "it does not list 7, 9" {
		t.Error(bad)
	}
}

// If a member cannot store its pledge, for example because its disk is full, the other members name it: only they know
// why the first start is delayed.
func TestWhoOwesItsPledgeIsWaitedFor(t *testing.T) {
	p := shownParty(t, [][]int{{0, 1, 2}}, 0, 0, 0)
	for range 4 {
		for i := range p.nodes {
			p.glance(i, FullSet(3))
			p.stored(i, i != 2)
		}
	}
	for i, want := range []Set{SetOf(2), SetOf(2), {}} {
		if got := p.nodes[i].Waiting(p.peers(i, FullSet(3))); got != want {
			t.Errorf("%d waits for %v, want %v:\n%s", i, got, want, p)
		}
	}
	p.rounds(6, -1)
	if s := p.nodes[0]; s.Fresh() || !s.Waiting(p.peers(0, FullSet(3))).IsEmpty() {
		t.Errorf("the disk has room again, and the group is not founded:\n%s", p)
	}
}
