package roster

import (
	"fmt"
	"testing"
)

const onToAThird = "new members that go on to a third list"

// histories lists groups of which every reachable state is searched.
var histories = []struct {
	name  string
	n     int
	lists [][]int
	long  bool // tens of thousands of states
}{
	{"one to three", 3, [][]int{{0}, {0, 1, 2}}, false},
	{"three to one", 3, [][]int{{0, 1, 2}, {0}}, false},
	{"two to three", 3, [][]int{{0, 1}, {0, 1, 2}}, false},
	{"join", 4, [][]int{{0, 1, 2}, {0, 1, 2, 3}}, false},
	{"removal", 4, [][]int{{0, 1, 2, 3}, {0, 1, 2}}, false},
	{"replaced member", 4, [][]int{{0, 1, 2}, {0, 1, 3}}, false},
	{"two replaced at once", 4, [][]int{{0, 1}, {2, 3}}, false},
	{"two changes", 3, [][]int{{0}, {0, 1}, {0, 1, 2}}, false},
	{"there and back", 3, [][]int{{0, 1}, {2}, {0, 1}}, false},
	{"new members that are told a second list", 3, [][]int{{0}, {0, 1, 2}, {0, 2}}, false},
	{onToAThird, 3, [][]int{{0}, {0, 1, 2}, {0}, {1, 2}}, true},
	{"two replacements", 4, [][]int{{0, 1, 2}, {0, 1, 3}, {0, 2, 3}}, true},
	{"growth and shrinking", 4, [][]int{{0, 1}, {0, 1, 2, 3}, {2, 3}}, true},
	{"more new members than old ones, and a second change", 4, [][]int{{1, 3}, {0, 2, 3}, {1, 2, 3}}, true},
}

// everyState visits every reachable state of a group: any node may at any time see any of the others, learn any list,
// and restart.
func everyState(t *testing.T, n int, lists [][]int, visit func(*party)) int {
	t.Helper()
	first := newParty(t, n, lists...)
	first.eager = true // otherwise there would be four times as many states
	seen := map[string]bool{first.String(): true}
	queue := []*party{first}
	reach := func(p *party) {
		if k := p.String(); !seen[k] {
			seen[k] = true
			visit(p)
			queue = append(queue, p)
		}
	}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		for i := range n {
			for of := range 1 << n {
				if of>>i&1 == 0 {
					q := p.clone()
					q.look(i, subset(of, n))
					q.stored(i, true)
					reach(q)
				}
			}
			for epoch := int(p.nodes[i].chain[0].Epoch) + 1; epoch < len(lists); epoch++ { // earlier lists are fetched
				q := p.clone()
				if err := q.nodes[i].Learn(q.list(epoch, i)); err != nil {
					t.Fatal(err)
				}
				reach(q)
			}
			q := p.clone()
			q.restart(i, 0)
			reach(q)
		}
	}
	return len(seen)
}

// Guard: the protocol of Succession. In no reachable state of these groups may a cut leave a quorate
// node on both sides.
func TestNoTwoPartsAreQuorate(t *testing.T) {
	for _, c := range histories {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && c.long {
				t.Skip("tens of thousands of states")
			}
			ends := 0
			states := everyState(t, c.n, c.lists, func(p *party) {
				if bad := p.torn(); bad != "" {
					t.Fatal(bad)
				}
				if base := p.nodes[0].chain[0]; base.Epoch == uint64(len(c.lists)-1) && !p.nodes[0].fresh {
					ends++
				}
			})
			if ends == 0 {
				t.Error("the last list is in force in no state: the search shows nothing")
			}
			t.Logf("%d states, in %d of them node 0 goes by the last list", states, ends)
		})
	}
}

// Guard: a group recovers from every state. Once all nodes are in contact, and the sources show the last list, all its
// members have quorum. Earlier lists are not in any source any more: the nodes have only the lists that they were shown
// before, and those that they hand over.
//
// One history is left out: a list that some nodes took up leaves a node out, and the next list names it again. The list
// in between is not handed to that node, because it is not in force, so the node waits until it is
// (docs/adr/0009-joint-quorum.md).
func TestGroupGetsOutOfEveryState(t *testing.T) {
	for _, c := range histories {
		if c.name == onToAThird {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && c.long {
				t.Skip("tens of thousands of states")
			}
			everyState(t, c.n, c.lists, func(p *party) {
				q := p.clone()
				if q.meet(); q.leftBehind() != "" {
					t.Fatalf("%s\nbefore all met:\n%s\nafterwards:\n%s", q.leftBehind(), p, q)
				}
			})
		})
	}
}

// meet keeps all nodes in contact for as long as any change can take, with the last list in all sources.
func (p *party) meet() {
	last := len(p.lists) - 1
	for round, before := 0, ""; round < 40 && before != p.String(); round++ {
		before = p.String()
		for i := range p.nodes {
			p.stored(i, true)
			_ = p.nodes[i].Learn(p.list(last, i)) // refused: the node has it
			p.handed(i, FullSet(len(p.nodes)))
			p.stored(i, true)
		}
	}
}

// leftBehind names a member of the last list that has no quorum although all are in contact. It uses the nodes'
// announcements, and shares no code with them. A node has quorum if, for each list that it uses, a majority uses no
// list that the node does not use. For peers that are not fresh, lists before the node's base do not matter.
func (p *party) leftBehind() string {
	for _, i := range p.lists[len(p.lists)-1] {
		mine := p.nodes[i].Standing()
		goesBy := map[Ref]bool{{}: true}
		for _, ref := range mine.Chain {
			goesBy[ref] = true
		}
		with := map[int]bool{i: true}
		for k := range p.nodes {
			counted, theirs := true, p.nodes[k].Standing()
			for _, ref := range theirs.Chain {
				counted = counted && (goesBy[ref] || ref.Epoch < mine.Chain[0].Epoch && !theirs.Fresh)
			}
			with[k] = with[k] || counted
		}
		for _, ref := range mine.Chain {
			votes := 0
			for _, k := range p.lists[ref.Epoch] {
				if with[k] {
					votes++
				}
			}
			if mine.Fresh || !ref.IsZero() && 2*votes <= len(p.lists[ref.Epoch]) {
				return fmt.Sprintf("%d of %v has no quorum; the lists are %v", i, p.lists[len(p.lists)-1], p.lists)
			}
		}
	}
	return ""
}
