package agentsim

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// A watchdog that fires after twice what it was set to, on a node that is cut off and whose agent is killed before it does: nobody says
// FENCED of it while it runs, and everybody does afterwards. No sentence can be told of such a node, since none ends in time.
func TestLateWatchdogIsReckonedWith(t *testing.T) {
	for i, after := range []time.Duration{12 * time.Second, 40 * time.Second, 60 * time.Second, 40 * time.Second} { // once it has condemned itself; before the first round ends; after it
		late := func(s *Schedule) {
			wide(s)
			if s.Late = "iTCO_wdt"; i == 3 {
				s.Late = measuredDriver
			}
		}
		kill := Event{At: after, Kind: Kill, Nodes: []int{0}}
		s := group(3, late, split([]int{0}, []int{1, 2}), kill)
		s.End = healthyFor + 5*time.Minute
		r := run(t, s)
		took, reset := said(t, r, "FENCED "+nodeName(0)+" PROOF_TIME"), said(t, r, "RESET")
		t.Logf("%s: killed after %v, reset after %v, FENCED after %v", s.Late, after, reset, took)
		if len(r.Violations) > 0 || r.Resets != 1 || r.Deaths != 2 || took == 0 || reset < after+s.latest() {
			t.Errorf("%d resets, %d deaths, FENCED after %v\n%s", r.Resets, r.Deaths, took, Explain(s, r))
		}
	}
}

// A watchdog that does not fire: the node is called dead after its first cut, answers when that heals, and is not called dead again. Those
// who have seen it tell the ones who have begun since; and where all have begun since, the node itself says that nothing guards it.
func TestWatchdogThatDoesNotFireIsNotTrustedAgain(t *testing.T) {
	cut := split([]int{0}, []int{1, 2, 3, 4})
	again := func(after time.Duration, node int) Event { return at(after, Event{Kind: Restart, Nodes: []int{node}}) }
	second := 2*time.Minute + 20*time.Second
	for name, restarts := range map[string][]Event{
		"one begins again after it has answered": {again(120*time.Second, 1)},
		"all begin again before":                 {again(50*time.Second, 1), again(60*time.Second, 2), again(70*time.Second, 3), again(80*time.Second, 4)},
	} {
		events := append(slices.Clone(restarts), cut, at(100*time.Second, Event{Kind: Heal}), at(second, cut))
		slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
		s := group(5, func(s *Schedule) {
			s.Late, s.LUN, s.Unjudged = silentDriver, false, true // nobody can judge what is said of a node that should not run
		}, events...)
		s.End = healthyFor + second + 3*time.Minute
		r := run(t, s)
		first, last := said(t, r, "FENCED "+nodeName(0)+" PROOF_TIME"), saidLast(t, r, "FENCED "+nodeName(0)+" PROOF_TIME")
		t.Logf("%s: FENCED after %v, said for the last time after %v", name, first, last)
		if first == 0 || last >= second {
			t.Errorf("%s: FENCED after %v, said for the last time after %v\n%s", name, first, last, Explain(s, r))
		}
	}
}

// A process that is stopped for two or three seconds says no LEFT, neither of itself nor of others: all answer as soon as it runs again. One
// that is stopped while the network goes says LEFT soon after.
func TestStoppedForAMoment(t *testing.T) {
	for _, span := range []time.Duration{2100 * time.Millisecond, 2600 * time.Millisecond, 3200 * time.Millisecond} {
		s := group(3, noLUN, Event{Kind: Freeze, Nodes: []int{0}, Span: span})
		s.End = healthyFor + 15*time.Second
		r := run(t, s)
		if left := said(t, r, nodeName(0)+"   tells subscribers: LEFT"); len(r.Violations) > 0 || left != 0 {
			t.Errorf("stopped for %v: LEFT after %v\n%s", span, left, Explain(s, r))
		}
	}
	s := group(3, func(s *Schedule) { wide(s); noLUN(s) }, Event{Kind: Freeze, Nodes: []int{0}, Span: 8 * time.Second}, at(3*time.Second, split([]int{0}, []int{1, 2})))
	r := run(t, s)
	if left := said(t, r, nodeName(0)+"   tells subscribers: LEFT "+nodeName(1)); left < 8*time.Second || left > 8400*time.Millisecond {
		t.Errorf("cut off while it was stopped: LEFT after %v\n%s", left, Explain(s, r))
	}
}
