package lunhold

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

var (
	three = search.Graphs("123", "")
	all4  = search.Graphs("1234", "")
	all5  = search.Graphs("12345", "")
)

// late returns times with which each I/O that hangs ends after this many ticks.
func late(t Times, ticks uint8) Times {
	t.Late = ticks
	return t
}

type calm struct {
	scenario
	want bool // whether a node is reset
}

var calms = []calm{
	{scenario{name: "five nodes, nobody starves", size: 5, graphs: all5, left: Budget{Cuts: 2}, both: true, steady: true}, false},
	{scenario{name: "the same in two outages", size: 5, graphs: all5, left: Budget{Cuts: 3}, steady: true}, true},
	{scenario{name: "five nodes, any number of outages of D_max each, nobody starves", size: 5, graphs: all5, left: Budget{Cuts: always}, both: true, dwell: maxAge, steady: true}, false},
	{scenario{name: "four nodes, the same", size: 4, graphs: all4, left: Budget{Cuts: always}, both: true, dwell: maxAge, steady: true}, false},
	{scenario{name: "three nodes, the same", size: 3, graphs: three, left: Budget{Cuts: always}, both: true, dwell: maxAge, steady: true}, false},
	{scenario{name: "five nodes, outages that are shorter", size: 5, graphs: all5, left: Budget{Cuts: always}, both: true}, true},
	{scenario{name: "five nodes, the same, and answers by network count in S", size: 5, graphs: all5, left: Budget{Cuts: always}, both: true, rules: Rules{NetInS: true}}, false},
	{scenario{name: "four nodes, the same", size: 4, graphs: all4, left: Budget{Cuts: always}, both: true, rules: Rules{NetInS: true}}, false},
	{scenario{name: "three nodes, the same", size: 3, graphs: three, left: Budget{Cuts: always}, both: true, rules: Rules{NetInS: true}}, false},
	{scenario{name: "five nodes, two have no LUN, nobody else starves", size: 5, graphs: all5, left: Budget{Cuts: 2}, without: search.Of(3, 4), times: times(3, 2), steady: true}, false},
	{scenario{name: "the same, and A is not longer than D_max", size: 5, graphs: all5, left: Budget{Cuts: 1}, without: search.Of(3, 4), steady: true}, true},
	{scenario{name: "the same, and seen goes back D_lun + D_max", size: 5, graphs: all5, left: Budget{Cuts: 1}, without: search.Of(3, 4), times: times(3, 2),
		rules: Rules{SeenLong: true}}, true},
	{scenario{name: "five nodes, a late write", size: 5, graphs: all5, left: Budget{Cuts: 2, Hangs: 1}, times: late(times(3, 2), 1)}, false},
	{scenario{big: true, name: "four nodes, two late writes", size: 4, graphs: all4, left: Budget{Cuts: 2, Hangs: 2}, times: late(times(3, 2), 1)}, false},
	{scenario{name: "a late I/O ends the bridge", size: 4, graphs: all4, left: Budget{Cuts: 2, Hangs: 1}, times: late(times(3, 2), 1), rules: Rules{Prompt: true}, steady: true}, true},
	{scenario{name: "it does not, and nobody starves", size: 4, graphs: all4, left: Budget{Cuts: 2, Hangs: 1}, times: late(times(3, 2), 1), steady: true}, false},
	{scenario{name: "A is not longer than D_max, and two late I/Os", size: 4, graphs: all4, left: Budget{Cuts: 1, Hangs: 2}, times: late(Usual, 1)}, true},
	{scenario{name: "without the bridge", size: 5, graphs: all5, left: Budget{Cuts: 2, Hangs: 1}, times: late(Usual, 1), rules: Rules{NoBridge: true}}, true},
	{scenario{name: "today's rules", size: 5, graphs: all5, left: Budget{Cuts: 2}, rules: Rules{NoHold: true}}, true},
	{scenario{name: "a short D_lun", size: 5, graphs: all5, left: Budget{Cuts: 2, Hangs: 1},
		times: Times{Tie: 2, Dated: 2, Beat: 1, Claim: 7, Runs: 2, Late: 1}}, true},
	{scenario{name: "one joins three, holds by one list", size: 4, lists: rosters("123", "1234"), graphs: all4, left: Budget{Cuts: 2, Offers: 1}, both: true, times: times(3, 2)}, true},
	{scenario{name: "one leaves five, holds by one list", size: 5, lists: rosters("12345", "1234"), graphs: all5, left: Budget{Cuts: 2, Offers: 1}, both: true, times: times(3, 2)}, true},
	{scenario{name: "one joins three, holds by several lists", size: 4, lists: rosters("123", "1234"), graphs: all4, left: Budget{Cuts: 2, Offers: 1}, both: true, times: times(3, 2),
		rules: Rules{JointHold: true}}, false},
	{scenario{name: "one leaves five, holds by several lists", size: 5, lists: rosters("12345", "1234"), graphs: all5, left: Budget{Cuts: 2, Offers: 1}, both: true, times: times(3, 2),
		rules: Rules{JointHold: true}}, false},
}

// P3: an outage of all networks and its end reset no node if the LUN works.
func TestCalm(t *testing.T) {
	for _, c := range calms {
		t.Run(c.name, func(t *testing.T) {
			if c.big && !long() {
				t.Skip("a long search: make model KIND=lunhold")
			}
			c.calm = true
			m := c.model()
			f := c.run(t, m, 1_000_000)
			if f.Wrong != "" != c.want || f.Cut {
				t.Errorf("found %q, want something: %t", f.Wrong, c.want)
			}
			if f.Wrong != "" {
				t.Logf("%s:%s\n%s", f.Wrong, m.list(f.Way), m.String(&f.State))
			}
		})
	}
}

// P4: from any state, a part that comes together lives, whichever nodes hold: a majority at once, and a half when it is
// granted.
func TestPartsLive(t *testing.T) {
	for _, c := range []scenario{
		{name: "three nodes", size: 3, graphs: search.Every(3), left: Budget{Cuts: 2}},
		{name: "three nodes, a write that hangs", size: 3, graphs: three, left: Budget{Cuts: 2, Hangs: 1}},
		{name: "four nodes, grants", size: 4, graphs: four, left: Budget{Cuts: 2, Grants: 1}},
		{name: "five nodes", size: 5, graphs: five, left: Budget{Cuts: 2}},
		{big: true, name: "one joins three", size: 4, lists: joins.lists, graphs: joins.graphs, left: Budget{Cuts: 2, Offers: 1}},
		{big: true, name: "one leaves four", size: 4, lists: leaves.lists, graphs: leaves.graphs, left: Budget{Cuts: 2, Offers: 1}},
		{big: true, name: "two leave five", size: 5, lists: shrinks.lists, graphs: shrinks.graphs, left: Budget{Cuts: 2, Offers: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.big && !long() {
				t.Skip("a long search: make model KIND=lunhold")
			}
			m := c.model()
			m.Check = func(s *State) string {
				for part := Set(1); part < 1<<m.Size; part++ {
					if 2*part.Len() < m.Size {
						continue
					}
					if wrong := m.Kept(*s, part); wrong != "" {
						return wrong
					}
				}
				return ""
			}
			if f := c.run(t, m, 300_000); f.Wrong != "" || f.Cut {
				t.Errorf("%s:%s\n%s", f.Wrong, m.list(f.Way), m.String(&f.State))
			}
		})
	}
}

// The networks of one node fail a moment before those of the others. For that moment the slots show a living majority
// without it, which is true, and H3 ends its bridge: it starves until S is known. It must not do more than starve
// because of that.
func TestOneIsFirst(t *testing.T) {
	for _, earlier := range []int{1, 2, 3} {
		c := scenario{size: 5, graphs: search.Graphs("2345", ""), times: times(3, 5)}
		m := c.model()
		s := m.Root(Budget{}, 0)
		starved := 0
		for tick := range 12 {
			s.answers = m.Shapes[min(1, tick/earlier)].Answers
			if m.tick(&s, onward); s.nodes[0].perm == 0 {
				starved++
			}
		}
		t.Logf("cut off %d ticks earlier, it starves for %d ticks, and runs: %t", earlier, starved, s.nodes[0].up)
		if !s.nodes[0].up || starved == 0 || starved > earlier+1 {
			t.Errorf("\n%s", m.String(&s))
		}
	}
}
