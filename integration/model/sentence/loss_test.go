package sentence

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

var lossSearches = []struct {
	name   string
	long   bool // only with make model KIND=sentence
	size   int
	shapes []search.Graph
	left   LossBudget
	rules  LossRules
	found  bool
}{
	{"three nodes", false, 3, three, LossBudget{Cuts: 2, Paths: 2}, LossRules{}, false},
	{"three nodes, the LUN goes", false, 3, three, LossBudget{Cuts: 1, Paths: 2, Outages: 2}, LossRules{}, false},
	{"three nodes, four paths", true, 3, three, LossBudget{Cuts: 2, Paths: 4, Outages: 1}, LossRules{}, false},
	{"four nodes", true, 4, four, LossBudget{Cuts: 2, Paths: 3}, LossRules{}, false},
	{"five nodes, a hub", false, 5, five, LossBudget{Cuts: 2, Paths: 1}, LossRules{}, false},
	{"five nodes, a hub, two paths, the LUN goes", true, 5, five, LossBudget{Cuts: 2, Paths: 2, Outages: 1}, LossRules{}, false},

	{"E3: its own loss is enough", false, 3, three, LossBudget{Outages: 1}, LossRules{OwnLoss: true}, true},
	{"E3: a hub", false, 5, search.Graphs("12345", "1-2 1-3 1-4 1-5"), LossBudget{Cuts: 1, Paths: 1}, LossRules{Hub: true}, true},
	{"E3: neither grace nor three looks", false, 3, three, LossBudget{Outages: 1}, LossRules{NoGrace: true, OneWord: true}, true},
	{"E3: no grace", false, 3, three, LossBudget{Cuts: 1, Paths: 1, Outages: 2}, LossRules{NoGrace: true}, false},
	{"E3: one look", false, 3, three, LossBudget{Cuts: 1, Paths: 1, Outages: 2}, LossRules{OneWord: true}, false},
	{"E3, P5: it is counted", true, 5, five, LossBudget{Cuts: 2, Paths: 2}, LossRules{Counted: true}, false},
}

// Without one part of E3 a LUN that fails can cost a group its life. With all parts it cannot.
func TestLoss(t *testing.T) {
	for _, c := range lossSearches {
		t.Run(c.name, func(t *testing.T) {
			if c.long && !long() {
				t.Skip("a long search: make model KIND=sentence")
			}
			m := &Loss{LossRules: c.rules, Size: c.size, Shapes: c.shapes}
			f := Search(m, m.Root(c.left), 3_000_000)
			t.Logf("%d states, found %q", f.States, f.Wrong)
			if f.Wrong != "" {
				t.Logf("%s:%s\n%s", f.Wrong, way(f.Way), &f.State)
			}
			if (f.Wrong != "") != c.found || f.Cut && !c.long {
				t.Errorf("found %q, want something: %t, cut %t", f.Wrong, c.found, f.Cut)
			}
		})
	}
}

// In these searches a node does condemn itself. Otherwise they would prove nothing.
func TestLossIsReached(t *testing.T) {
	m := &Loss{Size: 3, Shapes: three}
	s := m.Root(LossBudget{})
	s.lost = 1
	for range 20 {
		m.tick(&s)
	}
	if !s.nodes[0].condemned || s.nodes[1].condemned || !s.nodes[1].lives || s.nodes[1].view != 6 {
		t.Errorf("%s", &s)
	}
}
