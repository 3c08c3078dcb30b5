package sim

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

var largest = flag.Int("inquiry", 0, "size of the largest group in which deaths are proven by time")

// inquired is how a death was proven by time in a group.
type inquired struct {
	late  []time.Duration // by survivor: from when a majority claims the deaths to its proof of all of them, the first proof first
	asked float64         // peers, by each survivor, because it lacked their claims
}

// dieTogether resets the last nodes of a group without LUN, which do not come back, and waits until all others
// have proven it.
func dieTogether(t *testing.T, n, victims int, seed uint64) inquired {
	t.Helper()
	cfg := shortLived(n, seed)
	cfg.LUN = false
	c := New(cfg)
	if !c.RunUntil(time.Minute, func() bool { return len(c.Feeding()) == n }) {
		t.Fatalf("%d nodes: %d feed", n, len(c.Feeding()))
	}
	c.Run(15 * time.Second) // all have their watchdogs armed, and have said so
	var dead roster.Set
	for i := n - victims; i < n; i++ {
		dead.Add(i)
		c.reset(c.nodes[i])
	}
	due := boottime.Never // when the last member of a majority has missed all of them for their horizon
	blind, noted := make([]boottime.Instant, n-victims), 0
	var out inquired
	if !c.RunUntil(cfg.Budget().Horizon()+cfg.Timing.MaxAge*3+time.Minute, func() bool {
		proven := 0
		for i, w := range c.nodes[:n-victims] {
			if blind[i] == 0 && !w.core.View().Seen.Intersects(dead) {
				if blind[i], noted = c.now, noted+1; noted == n/2+1 {
					due = c.now.Add(cfg.Budget().Horizon())
				}
			}
			if w.core.Deaths().Fenced().And(dead) == dead {
				proven++
			}
		}
		for len(out.late) < proven {
			out.late = append(out.late, c.now.Sub(due))
		}
		return proven == n-victims
	}) {
		t.Errorf("%d nodes, %d of them dead: not everybody has proven it %v after a majority claims it", n, victims, c.now.Sub(due))
	}
	out.asked = float64(c.check.Asked) / float64(n-victims)
	noViolations(t, c)
	return out
}

// lateness is how long after a majority claims a death it may be proven, in a group of n.
func lateness(n int) time.Duration {
	switch {
	case n <= 10:
		return watchdog.ProofDelay
	case n <= 100:
		return 3 * time.Second
	}
	return 5 * time.Second
}

// Guard: a death is proven by time in a large group hardly later than in a small one, and what is asked for it is
// bounded: each member is asked once, by each, and a few twice.
func TestProofByTimeDoesNotGrow(t *testing.T) {
	for _, tc := range []struct {
		nodes, victims int
		long           bool
	}{
		{3, 1, false}, {10, 1, false}, {10, 4, false}, {30, 14, false}, {100, 1, false},
		{100, 10, true}, {100, 49, true}, {300, 1, true}, {300, 149, true}, {1000, 1, true}, {1000, 499, true},
	} {
		if tc.long && tc.nodes > *largest {
			continue
		}
		began, seeds := time.Now(), uint64(1)
		if *table {
			seeds = 5
		}
		var got inquired
		for seed := range seeds {
			one := dieTogether(t, tc.nodes, tc.victims, uint64(tc.nodes)+1000*seed)
			got.late, got.asked = append(got.late, one.late...), max(got.asked, one.asked)
		}
		slices.Sort(got.late)
		first, last := got.late[0], got.late[len(got.late)-1]
		t.Logf("| %d | %d | %.1f s | %.1f s | %.1f s | %.0f | took %v", tc.nodes, tc.victims, first.Seconds(), got.late[len(got.late)/2].Seconds(),
			last.Seconds(), got.asked, time.Since(began).Round(time.Second))
		if last > lateness(tc.nodes) || tc.victims == 1 && first < 0 {
			t.Errorf("%d nodes, %d of them dead: proven %v to %v after a majority claims it", tc.nodes, tc.victims, first, last)
		}
		if most := float64(3 * tc.nodes); got.asked > most {
			t.Errorf("%d nodes, %d of them dead: each asked %.0f peers, want at most %.0f", tc.nodes, tc.victims, got.asked, most)
		}
	}
}
