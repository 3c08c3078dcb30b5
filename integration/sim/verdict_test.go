package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// TestContendedVerdicts lets both halves of four nodes seek the grant at once. It logs the time from the first node
// that misses its majority to the first one that feeds under the grant. SIM_RUNS sets the number of splits. The test
// requires that one half wins within the budget if I/O is prompt; the distribution is in
// docs/measurements/performance.md.
func TestContendedVerdicts(t *testing.T) {
	runs := 25
	if n := envNumber(t, "SIM_RUNS"); n != 0 {
		runs = int(n)
	}
	const slow = 500 * time.Millisecond
	for _, c := range []struct {
		name    string
		devices int
		slow    time.Duration
	}{{"one device", 1, 0}, {"three devices", 3, 0}, {"one, I/O of up to 0.5 s", 1, slow}, {"three, I/O of up to 0.5 s", 3, slow}} {
		var took []time.Duration
		ballots, most, undecided := 0, 0, 0
		for seed := range uint64(runs) {
			cfg := DefaultConfig(4, seed)
			cfg.Devices = c.devices
			r := started(t, cfg)
			for i := range r.nodes {
				if c.slow > 0 {
					r.LUNFaults(i, &Faults{Slow: c.slow})
				}
			}
			before := len(r.Attempts())
			r.Split([][]int{{0, 1}, {2, 3}})
			some := func(reason func(watchdog.Reason) bool) func() bool {
				return func() bool {
					return slices.ContainsFunc(r.nodes, func(n *Node) bool { return reason(n.decision.Reason) })
				}
			}
			mustRun(t, r, "somebody misses its majority", 10*time.Second, some(func(x watchdog.Reason) bool { return x != watchdog.ReasonNetworkQuorum }))
			begun := r.Now()
			if !r.RunUntil(cfg.Timing.Arbitrate, some(func(x watchdog.Reason) bool { return x == watchdog.ReasonSplitWon })) {
				undecided++
			}
			took = append(took, r.Now()-begun)
			ballots = max(ballots, len(r.Attempts())-before)
			for _, a := range r.Attempts()[before:] {
				most = max(most, a.IOs)
			}
			noViolations(t, r)
		}
		if undecided > 0 && c.slow == 0 {
			t.Errorf("%s: %d of %d splits undecided within the budget", c.name, undecided, runs)
		}
		slices.Sort(took)
		t.Logf("%s: p50 %v, p90 %v, p99 %v, max %v; at most %d ballots a verdict, %d I/Os a ballot and device; undecided %d of %d", c.name,
			took[len(took)/2], took[len(took)*9/10], took[len(took)*99/100], took[len(took)-1], ballots, most, undecided, runs)
	}
}
