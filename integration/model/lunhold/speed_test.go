package lunhold

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

// slower has a heartbeat of two ticks.
var slower = Times{Tie: 4, Dated: 6, Beat: 2, Claim: 10, Runs: 3}

// Some rules only save time: without them nothing is wrong, and two sides feed for longer.
func TestOverlap(t *testing.T) {
	for _, c := range []scenario{
		{name: "H3", size: 4, graphs: halves, left: Budget{Cuts: 1, Grants: 1}, rules: Rules{NoH3: true}},
		{name: "M3", size: 3, graphs: outage, left: Budget{Cuts: 2}, both: true, times: slower, rules: Rules{NoM3: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := c.model()
			without := c.run(t, m, 400_000)
			m.Rules = Rules{}
			with := c.run(t, m, 400_000)
			if without.Wrong+with.Wrong != "" || without.Cut || with.Cut {
				t.Errorf("%q, %q", without.Wrong, with.Wrong)
			}
			t.Logf("%d ticks in place of %d", without.Met.Longest, with.Met.Longest)
			if without.Met.Longest <= with.Met.Longest {
				t.Error("the rule makes nothing shorter")
			}
		})
	}
}

// The time of a claim is no longer than necessary: with the horizon nothing is wrong, and with a tick less a node that
// runs is called FENCED. The bridge is what takes so long.
func TestClaim(t *testing.T) {
	for claim, want := range map[uint8]bool{Usual.Claim - 1: false, Usual.Claim - 2: true} {
		c := scenario{size: 3, graphs: search.Graphs("123", "12"), left: Budget{Cuts: 2, Hangs: 1}, times: Usual}
		c.times.Claim = claim
		m := c.model()
		if f := c.run(t, m, 400_000); f.Wrong != "" != want {
			t.Errorf("a claim of %d ticks: %q", claim, f.Wrong)
		} else if want {
			t.Logf("a claim of %d ticks: %s:%s", claim, f.Wrong, m.list(f.Way))
		}
	}
}
