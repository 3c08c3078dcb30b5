package agentsim

import (
	"testing"
	"time"
)

// A watchdog that fires after twice what it was set to, on a node that is cut off and whose agent is killed before it does: nobody says
// FENCED of it while it runs, and everybody does afterwards. No sentence can be told of such a node, since none ends in time.
func TestLateWatchdogIsReckonedWith(t *testing.T) {
	late := func(s *Schedule) { wide(s); s.Late = "iTCO_wdt" }
	for _, after := range []time.Duration{12 * time.Second, 40 * time.Second, 60 * time.Second} { // once it has condemned itself; before the first round ends; after it
		kill := Event{At: after, Kind: Kill, Nodes: []int{0}}
		s := group(3, late, split([]int{0}, []int{1, 2}), kill)
		s.End = healthyFor + 5*time.Minute
		r := run(t, s)
		took := said(t, r, "FENCED "+nodeName(0)+" PROOF_TIME")
		t.Logf("killed after %v, reset after %v, FENCED after %v", after, said(t, r, "RESET"), took)
		if len(r.Violations) > 0 || r.Resets != 1 || r.Deaths != 2 || took == 0 {
			t.Errorf("%d resets, %d deaths, FENCED after %v\n%s", r.Resets, r.Deaths, took, Explain(s, r))
		}
	}
}
