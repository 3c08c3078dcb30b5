package agentsim

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// A watchdog fires only after twice its timeout, on a node that is cut off and whose agent is killed before the
// watchdog fires. Nobody reports FENCED for the node while it runs, and everybody does afterwards. Nobody can announce
// a sentence of such a node, because none ends in time.
func TestLateWatchdogIsReckonedWith(t *testing.T) {
	// The agent is killed when it has condemned itself, before the watchdog's first countdown ends, and after that.
	for i, after := range []time.Duration{12 * time.Second, 40 * time.Second, 60 * time.Second, 40 * time.Second} {
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

// A watchdog does not fire. The node is called dead after its first cut, answers when the cut heals, and is not called
// dead again. The agents that have seen this tell those that started later. If all agents have started later, the node
// itself reports that nothing guards it.
func TestWatchdogThatDoesNotFireIsNotTrustedAgain(t *testing.T) {
	cut := split([]int{0}, []int{1, 2, 3, 4})
	again := func(after time.Duration, node int) Event { return at(after, Event{Kind: Restart, Nodes: []int{node}}) }
	second := 2*time.Minute + 20*time.Second
	for name, restarts := range map[string][]Event{
		"one agent restarts after the node has answered": {again(120*time.Second, 1)},
		"all agents restart before that":                 {again(50*time.Second, 1), again(60*time.Second, 2), again(70*time.Second, 3), again(80*time.Second, 4)},
	} {
		events := append(slices.Clone(restarts), cut, at(100*time.Second, Event{Kind: Heal}), at(second, cut))
		slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
		s := group(5, func(s *Schedule) {
			// Nobody can judge reports about a node that should not be running.
			s.Late, s.LUN, s.Unjudged = silentDriver, false, true
		}, events...)
		s.End = healthyFor + second + 3*time.Minute
		r := run(t, s)
		first, last := said(t, r, "FENCED "+nodeName(0)+" PROOF_TIME"), saidLast(t, r, "FENCED "+nodeName(0)+" PROOF_TIME")
		t.Logf("%s: FENCED after %v, last reported after %v", name, first, last)
		if first == 0 || last >= second {
			t.Errorf("%s: FENCED after %v, last reported after %v\n%s", name, first, last, Explain(s, r))
		}
	}
}

// A process that is stopped for two or three seconds causes no LEFT, neither about itself nor about others: all nodes
// answer as soon as it runs again. A process that is stopped while its network is cut reports LEFT soon after it
// continues.
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
