package agentsim

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// fencedAt returns when n1 was reset, when the last node reported its death, and how many nodes did.
func fencedAt(r *Result) (reset, last time.Duration, sayers int) {
	said := map[string]bool{}
	for _, l := range r.Timeline {
		if strings.Contains(l, "n1   RESET") {
			var at float64
			if _, err := fmt.Sscanf(strings.TrimSpace(l), "%fs", &at); err == nil {
				reset = time.Duration(at * float64(time.Second))
			}
		}
		if f := strings.Fields(l); strings.Contains(l, "tells subscribers: FENCED n1 PROOF_TIME") && !said[f[1]] {
			var at float64
			if _, err := fmt.Sscanf(f[0], "%fs", &at); err == nil {
				said[f[1]] = true
				last = max(last, time.Duration(at*float64(time.Second)))
			}
		}
	}
	return reset, last, len(said)
}

// By replaying what a dead node sent, an attacker can prove that the node lived until its reset where nobody could hear
// it. The proof of its death then takes as long as after the last message of a node that falls silent. D_max is added
// at most, because that is how old the last answers can be.
func TestReplayDoesNotHoldUpFenced(t *testing.T) {
	attacked := func(replay, key bool) (reset, fenced time.Duration) {
		s := group(5, func(s *Schedule) {
			s.LUN, s.Replay, s.Key, s.Reboot = false, replay, key, 10*time.Minute
		}, split([]int{0}, []int{1, 2, 3, 4}), at(10*time.Second, Event{Kind: Heal}), at(90*time.Second, Event{Kind: Nothing}))
		r := run(t, s)
		reset, last, sayers := fencedAt(r)
		if len(r.Violations) > 0 || sayers != 4 || r.Resets != 1 {
			t.Errorf("replay %v, key %v: %d resets, %d nodes report FENCED\n%s", replay, key, r.Resets, sayers, Explain(s, r))
		}
		return reset, last
	}
	_, fenced := attacked(false, false)
	plain := fenced - healthyFor // the node falls silent when the split begins
	for _, key := range []bool{false, true} {
		reset, fenced := attacked(true, key)
		took := fenced - reset
		t.Logf("key %v: FENCED %v after the reset, without the attacker %v after the last message", key, took, plain)
		if limit := (&Schedule{Nodes: 5, Networks: 2, OnLoss: "fence", Watchdog: 6 * time.Second, Feed: time.Second}).timing().maxAge; took > plain+limit {
			t.Errorf("key %v: the attacker delayed FENCED by %v", key, took-plain)
		}
	}
}
