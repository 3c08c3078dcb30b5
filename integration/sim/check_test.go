package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Guard: the oracle compares views when they have changed. What it relies on is what the nodes count, whatever
// happens to them and to the list of members.
func TestOracleKnowsWhomNodesCount(t *testing.T) {
	apart := 0
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 0x0c1e))
		cfg := DefaultConfig(5, seed)
		cfg.LUN, cfg.Lists = seed%2 == 0, [][]int{{0, 1, 2, 3, 4}, {0, 2, 3}, {0, 1, 2, 4}, {0, 1, 2, 3, 4}}
		cfg.Watchdog, cfg.Feed, cfg.Reboot = 6*time.Second, time.Second, 5*time.Second
		if seed%3 == 0 {
			cfg.Lists = nil
		}
		c := New(cfg)
		for range 300 {
			switch rng.IntN(8) {
			case 0:
				if cfg.Lists != nil {
					c.Tell(rng.IntN(5), rng.IntN(4))
				}
			case 1:
				disturbNetwork(c, rng)
			}
			c.Run(time.Duration(rng.Int64N(int64(400 * time.Millisecond))))
			for i, a := range c.nodes {
				if a.counts != c.counted(a) {
					t.Fatalf("seed %d, %v: %s counts others than the oracle takes for counted", seed, c.Now(), a.Name)
				}
				for j := i + 1; j < 5; j++ {
					listed := slices.Contains(c.check.apart, [2]int{i, j})
					if disjoint := !c.counted(a).Intersects(c.counted(c.nodes[j])); disjoint != listed {
						t.Fatalf("seed %d, %v: %s and %s apart: %v, as the oracle has it %v", seed, c.Now(), a.Name, c.nodes[j].Name, disjoint, listed)
					}
				}
			}
			apart += len(c.check.apart)
		}
	}
	if apart == 0 {
		t.Error("no two nodes were ever apart: the test shows nothing")
	}
}
