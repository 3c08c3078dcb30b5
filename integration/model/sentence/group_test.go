package sentence

import (
	"os"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

func long() bool { return os.Getenv("SENTENCE_LONG") != "" }

func way(steps []string) string { return "\n  " + strings.Join(steps, "\n  ") }

type groupSearch struct {
	name   string
	long   bool // only with make model KIND=sentence
	size   int
	shapes []search.Graph
	left   GroupBudget
	who    Set
	rules  GroupRules
	found  bool
}

var (
	three = search.Graphs("123", "", "23", "12", "1-2 1-3")
	four  = search.Graphs("1234", "", "12 34", "13 24", "123", "12")
	five  = search.Graphs("12345", "", "123 45", "1-2 1-3", "345", "1-2 1-3 45")
)

var groupSearches = []groupSearch{
	{"three nodes", false, 3, three, GroupBudget{Cuts: 3}, 0, GroupRules{}, false},
	{"three nodes, a write of the second that hangs", false, 3, search.Graphs("123", "", "23"), GroupBudget{Cuts: 2, Hangs: 1}, 2, GroupRules{}, false},
	{"three nodes, a write that hangs", true, 3, three, GroupBudget{Cuts: 2, Hangs: 1}, 0, GroupRules{}, false},
	{"three nodes, two writes that hang, four changes", true, 3, three, GroupBudget{Cuts: 4, Hangs: 2}, 0, GroupRules{}, false},
	{"four nodes, a grant", false, 4, four, GroupBudget{Cuts: 2, Grants: 1}, 0, GroupRules{}, false},
	{"four nodes, two grants, three changes", true, 4, four, GroupBudget{Cuts: 3, Grants: 2}, 0, GroupRules{}, false},
	{"four nodes, a grant, a write that hangs", true, 4, four, GroupBudget{Cuts: 2, Grants: 1, Hangs: 1}, 0, GroupRules{}, false},
	{"five nodes, a hub", false, 5, five, GroupBudget{Cuts: 2}, 0, GroupRules{}, false},
	{"five nodes, a hub, writes that hang", true, 5, five, GroupBudget{Cuts: 3, Hangs: 1}, 0, GroupRules{}, false},

	{"P1: silence", false, 3, three, GroupBudget{Cuts: 1}, 0, GroupRules{Silence: true}, true},
	{"P1: slots move, and none shows me", false, 3, three, GroupBudget{Cuts: 1}, 0, GroupRules{Moving: true}, true},
	{"P1: one slot shows a majority", false, 5, five, GroupBudget{Cuts: 2}, 0, GroupRules{OneSlot: true}, true},
	{"P1: one read", false, 3, three, GroupBudget{Cuts: 2, Hangs: 2}, 6, GroupRules{OneRead: true}, true},
	{"P1: changed twice at some time", true, 3, three, GroupBudget{Cuts: 3, Hangs: 2}, 6, GroupRules{EverTwice: true}, true},
	{"P1: a grant is enough", false, 4, four, GroupBudget{Cuts: 2, Grants: 1}, 0, GroupRules{GrantWord: true}, true},
	{"P1: an undecided tie", false, 4, four, GroupBudget{Cuts: 1}, 0, GroupRules{Undecided: true}, true},
	{"P1, P7: whatever is heard, which loses nobody but those whom the network gives back", true, 4, four, GroupBudget{Cuts: 2, Grants: 1}, 0, GroupRules{Unsteady: true}, false},
	{"P5: no layer at all", true, 3, three, GroupBudget{Cuts: 3}, 0, GroupRules{States: true, Counted: true, Evidence: true}, true},
	{"P5: an empty view alone", false, 3, three, GroupBudget{Cuts: 3}, 0, GroupRules{Counted: true, Evidence: true}, false},
	{"P5: not counted alone", true, 3, three, GroupBudget{Cuts: 3}, 0, GroupRules{States: true, Evidence: true}, false},
}

// Without one part of P1 a group can be lost, and the search returns the shortest history. With all parts, no group is
// lost.
func TestGroup(t *testing.T) {
	for _, c := range groupSearches {
		t.Run(c.name, func(t *testing.T) {
			if c.long && !long() {
				t.Skip("a long search: make model KIND=sentence")
			}
			for _, reverse := range []bool{false, true} {
				m := &Group{GroupRules: c.rules, Size: c.size, Shapes: c.shapes, Who: c.who, Reverse: reverse}
				f := Search(m, m.Root(c.left), 3_000_000)
				t.Logf("%d states, found %q", f.States, f.Wrong)
				if f.Wrong != "" {
					t.Logf("%s:%s\n%s", f.Wrong, way(f.Way), &f.State)
				}
				if c.found && f.Wrong != "" {
					return // one order of the nodes is enough
				}
				if f.Cut && !c.long || !c.found && f.Wrong != "" {
					t.Errorf("found %q, want something: %t, cut %t", f.Wrong, c.found, f.Cut)
				}
				if c.found && reverse && f.Wrong == "" {
					t.Error("found nothing")
				}
			}
		})
	}
}
