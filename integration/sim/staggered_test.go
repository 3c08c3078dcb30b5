package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// arbitrated returns groups of four with a LUN, and the same with a Lease.
func arbitrated(seeds int) (all []Config) {
	for seed := range uint64(seeds) {
		lun := DefaultConfig(4, seed)
		lease := lun
		lease.LUN, lease.Lease = false, true
		all = append(all, lun, lease)
	}
	return all
}

// longGranted returns a group with a grant that is so old that no clock of the split is still running.
func longGranted(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	c := started(t, cfg.withoutSentences()) // so that the losers are still there when the network heals
	reach := func(down bool) {
		for _, i := range []int{2, 3} {
			switch {
			case cfg.Lease:
				c.APIFaults(i, APIFaults{Down: down})
			case down:
				c.LUNFaults(i, &Faults{Down: true})
			default:
				c.LUNFaults(i, nil)
			}
		}
	}
	if cfg.Lease {
		c.Run(3 * time.Minute) // so that the Lease is old enough to be taken
	}
	reach(true)
	c.Split([][]int{{0, 1}, {2, 3}})
	mustRun(t, c, "n1 and n2 feed under a grant", 20*time.Second, func() bool {
		return c.reason(0) == watchdog.ReasonSplitWon && c.reason(1) == watchdog.ReasonSplitWon
	})
	reach(false)
	c.Run(c.cfg.Timing.MaxAge + c.cfg.Timing.Arbitrate + 3*time.Second)
	for i := range c.nodes {
		c.Events(i)
	}
	return c
}

// Guard: L14. The links of a switch come back seconds apart: n1 sees everybody, and n2 sees only n1. The half that won
// stays alive as a whole until n2 sees the others, too.
func TestHealInPiecesCostsNobodyOfTheWinningHalf(t *testing.T) {
	for _, cfg := range arbitrated(10) {
		seed, c := cfg.Seed, longGranted(t, cfg)
		c.Mend(0, 2)
		c.Mend(0, 3)
		mustRun(t, c, "n1 counts a majority", 10*time.Second, func() bool { return c.reason(0) == watchdog.ReasonNetworkQuorum })
		for range 600 {
			c.Run(50 * time.Millisecond)
			if !c.feeding(c.nodes[1]) {
				t.Fatalf("seed %d, lease %v: n2 starves, although its partner counts it and a majority\n%s", seed, cfg.Lease, c.Report())
			}
		}
		c.Heal()
		mustRun(t, c, "all nodes count a majority", 10*time.Second, func() bool {
			return feeds(c, 0, 1, 2, 3)() && c.reason(1) == watchdog.ReasonNetworkQuorum
		})
		for _, i := range []int{0, 1} {
			if e := c.Events(i); slices.Contains(e, "LEFT "+c.nodes[i].Name) {
				t.Errorf("seed %d, lease %v: n%d published %v", seed, cfg.Lease, i+1, e)
			}
		}
		noViolations(t, c)
	}
}

// Guard: L14. In an ordinary heal, too, one member of the half that won sees the others a moment before its partner
// does. Neither reports itself as LEFT.
func TestOrdinaryHealIsNoLossOfTheWinningHalf(t *testing.T) {
	for _, cfg := range arbitrated(40) {
		seed, c := cfg.Seed, longGranted(t, cfg)
		c.Heal()
		mustRun(t, c, "all nodes count a majority", 10*time.Second, func() bool {
			return feeds(c, 0, 1, 2, 3)() && c.reason(0) == watchdog.ReasonNetworkQuorum && c.reason(1) == watchdog.ReasonNetworkQuorum
		})
		for _, i := range []int{0, 1} {
			if e := c.Events(i); slices.Contains(e, "LEFT "+c.nodes[i].Name) {
				t.Errorf("seed %d, lease %v: n%d published %v", seed, cfg.Lease, i+1, e)
			}
		}
		noViolations(t, c)
	}
}
