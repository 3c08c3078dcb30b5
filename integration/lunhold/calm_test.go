package lunhold

import (
	"testing"
)

var (
	three = graphs("123", "")
	all4  = graphs("1234", "")
	all5  = graphs("12345", "")
)

// late are times under which each I/O that hangs ends after so many ticks.
func late(t Times, ticks uint8) Times {
	t.Late = ticks
	return t
}

type calm struct {
	search
	want bool // somebody is reset
}

var calms = []calm{
	{search{name: "five nodes, nobody starves", size: 5, graphs: all5, left: Budget{Cuts: 2}, both: true, steady: true}, false},
	{search{name: "the same in two outages", size: 5, graphs: all5, left: Budget{Cuts: 3}, steady: true}, true},
	{search{name: "five nodes, any number of outages", size: 5, graphs: all5, left: Budget{Cuts: always}, both: true}, false},
	{search{name: "four nodes, any number of outages", size: 4, graphs: all4, left: Budget{Cuts: always}, both: true}, false},
	{search{name: "three nodes, any number of outages", size: 3, graphs: three, left: Budget{Cuts: always}, both: true}, false},
	{search{name: "five nodes, two have no LUN, nobody else starves", size: 5, graphs: all5, left: Budget{Cuts: 2}, without: setOf(3, 4), times: times(3, 2), steady: true}, false},
	{search{name: "the same, and A is not longer than D_max", size: 5, graphs: all5, left: Budget{Cuts: 1}, without: setOf(3, 4), steady: true}, true},
	{search{name: "five nodes, a late write", size: 5, graphs: all5, left: Budget{Cuts: 2, Hangs: 1}, times: late(times(3, 2), 1)}, false},
	{search{name: "four nodes, two late writes", size: 4, graphs: all4, left: Budget{Cuts: 2, Hangs: 2}, times: late(times(3, 2), 1)}, false},
	{search{name: "without the bridge", size: 5, graphs: all5, left: Budget{Cuts: 2, Hangs: 1}, times: late(Usual, 1), rules: Rules{NoBridge: true}}, true},
	{search{name: "today's rules", size: 5, graphs: all5, left: Budget{Cuts: 2}, rules: Rules{NoHold: true}}, true},
	{search{name: "a short D_lun", size: 5, graphs: all5, left: Budget{Cuts: 2, Hangs: 1},
		times: Times{Tie: 2, Dated: 2, Beat: 1, Claim: 7, Runs: 2, Late: 1}}, true},
}

// P3: an outage of all networks and its end, with the LUN in order, reset nobody.
func TestCalm(t *testing.T) {
	for _, c := range calms {
		t.Run(c.name, func(t *testing.T) {
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
