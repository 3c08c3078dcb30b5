package agentsim

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// wide sets the watchdog of the default configuration.
func wide(s *Schedule) { s.Watchdog, s.Feed, s.Reboot = 30*time.Second, 5*time.Second, time.Hour }

// said returns when a line of a run first contains a text, counted from the first event; 0: never.
func said(t *testing.T, r *Result, what string) time.Duration {
	t.Helper()
	return saidIn(t, slices.Values(r.Timeline), what)
}

// saidLast returns when a line last contains a text.
func saidLast(t *testing.T, r *Result, what string) time.Duration {
	t.Helper()
	lines := slices.Clone(r.Timeline)
	slices.Reverse(lines)
	return saidIn(t, slices.Values(lines), what)
}

func saidIn(t *testing.T, lines iter.Seq[string], what string) time.Duration {
	t.Helper()
	for l := range lines {
		if stamp, _, _ := strings.Cut(strings.TrimSpace(l), "s "); strings.Contains(l, what) {
			seconds, err := strconv.ParseFloat(stamp, 64)
			if err != nil {
				t.Fatalf("line %q: %v", l, err)
			}
			return time.Duration(seconds*float64(time.Second)) - healthyFor
		}
	}
	return 0
}

// A node that is cut off condemns itself, and all others report FENCED about 13 s after the cut.
func TestCutOffIsFencedBySentence(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		others := make([]int, 0, nodes)
		for i := 1; i < nodes; i++ {
			others = append(others, i)
		}
		s := group(nodes, wide, split([]int{0}, others))
		r := run(t, s)
		took := said(t, r, "FENCED "+nodeName(0)+" PROOF_SENTENCE")
		t.Logf("%d nodes: condemned after %v, FENCED after %v", nodes, said(t, r, "announces its self-fence"), took)
		if len(r.Violations) > 0 || r.Resets != 1 || r.Deaths != nodes-1 || took == 0 || took > 15*time.Second {
			t.Errorf("%d resets, %d deaths, FENCED after %v\n%s", r.Resets, r.Deaths, took, Explain(s, r))
		}
	}
}

// The losing half of a split condemns itself, too.
func TestEqualSplitIsFencedBySentence(t *testing.T) {
	s := group(4, wide, split([]int{0, 1}, []int{2, 3}))
	r := run(t, s)
	took := max(said(t, r, "FENCED "+nodeName(0)+" PROOF_SENTENCE"), said(t, r, "FENCED "+nodeName(2)+" PROOF_SENTENCE"))
	t.Logf("condemned after %v, FENCED after %v", said(t, r, "announces its self-fence"), took)
	if len(r.Violations) > 0 || r.Resets != 2 || r.Deaths != 4 || took == 0 || took > 15*time.Second {
		t.Errorf("%d resets, %d deaths, FENCED after %v\n%s", r.Resets, r.Deaths, took, Explain(s, r))
	}
}

// A node that alone has lost the LUN condemns itself if configured to, and announces it over the networks (E3). When
// all nodes have lost the LUN, none condemns itself.
func TestLostLUNIsToldOverTheNetworks(t *testing.T) {
	and := func(s *Schedule) { wide(s); s.LUNMode, s.LUNLoss = "and", true }
	s := group(3, and, Event{Kind: LUNError, Nodes: []int{0}, Share: 1})
	r := run(t, s)
	took := said(t, r, "FENCED "+nodeName(0)+" PROOF_SENTENCE")
	t.Logf("condemned after %v, FENCED after %v", said(t, r, "announces its self-fence"), took)
	if len(r.Violations) > 0 || r.Resets != 1 || took == 0 || took > 25*time.Second {
		t.Errorf("%d resets, FENCED after %v\n%s", r.Resets, took, Explain(s, r))
	}
	s = group(3, and, Event{Kind: LUNError, Nodes: []int{0, 1, 2}, Share: 1})
	if r := run(t, s); len(r.Violations) > 0 || r.Resets != 0 || said(t, r, "announces its self-fence") != 0 {
		t.Errorf("%d resets\n%s", r.Resets, Explain(s, r))
	}
}

// A cut of 8 s costs nothing, and an outage of all networks condemns nobody.
func TestShortCutsCondemnNobody(t *testing.T) {
	for name, s := range map[string]Schedule{
		"one":    group(3, wide, split([]int{0}, []int{1, 2}), at(8*time.Second, Event{Kind: Heal})),
		"half":   group(4, wide, split([]int{0, 1}, []int{2, 3}), at(8*time.Second, Event{Kind: Heal})),
		"outage": group(4, wide, split([]int{0}, []int{1}, []int{2}, []int{3}), at(25*time.Second, Event{Kind: Heal})),
	} {
		r := run(t, s)
		if len(r.Violations) > 0 || r.Resets != 0 || said(t, r, "announces its self-fence") != 0 {
			t.Errorf("%s: %d resets\n%s", name, r.Resets, Explain(s, r))
		}
	}
}

// Guard: P2, P2'. The network comes back, or the agent is killed and started again, between any two steps of a
// sentence. The node is reset once. The checker verifies that no node is reported as FENCED while it runs.
func TestNothingSavesACondemnedNode(t *testing.T) {
	condemned := 9300 * time.Millisecond // when it condemns itself in this run, as the first case shows
	for i, e := range []Event{{Kind: Heal}, {Kind: Restart, Nodes: []int{0}}, {Kind: Kill, Nodes: []int{0}}} {
		for later := time.Duration(0); later <= 1200*time.Millisecond; later += 200 * time.Millisecond {
			s := group(3, wide, split([]int{0}, []int{1, 2}), at(condemned+later, e), at(condemned+later+time.Second, Event{Kind: Heal}))
			s.Reboot = 20 * time.Second
			r := run(t, s)
			if len(r.Violations) > 0 || r.Resets > 1 {
				t.Errorf("%v %v later: %d resets\n%s", e.Kind, later, r.Resets, Explain(s, r))
			}
			t.Log(i, later, said(t, r, "announces its self-fence"), said(t, r, "RESET"), said(t, r, "FENCED"))
		}
	}
}

// Guard: P2'. The next agent cannot see the kernel's countdown. It waits, and arms nothing before the node is reset.
func TestNextAgentIsBlind(t *testing.T) {
	for later := time.Duration(0); later <= 1200*time.Millisecond; later += 300 * time.Millisecond {
		at9 := 9300*time.Millisecond + later
		s := group(3, wide, split([]int{0}, []int{1, 2}), at(at9, Event{Kind: Restart, Nodes: []int{0}}), at(at9, Event{Kind: Heal}))
		s.Reboot, s.Hides = 20*time.Second, true
		if r := run(t, s); len(r.Violations) > 0 || r.Resets != 1 || said(t, r, "announces its self-fence") == 0 {
			t.Errorf("%v later: %d resets\n%s", later, r.Resets, Explain(s, r))
		}
	}
}
