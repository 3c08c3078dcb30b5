package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// breakers names what decides equal splits.
var breakers = []string{"lun", "lease", "none"}

func ordering(n int, seed uint64, breaker string) Config {
	cfg := DefaultConfig(n, seed)
	cfg.Orders, cfg.LUN, cfg.Lease = true, breaker == "lun", breaker == "lease"
	return cfg
}

// A node that is ordered to end becomes FENCED for all others within seconds, with and without a LUN.
func TestOrderedNodeIsFenced(t *testing.T) {
	worst := time.Duration(0)
	for _, breaker := range breakers {
		for _, nodes := range []int{3, 4, 5, 8, 12} {
			for seed := range uint64(5) {
				c := New(ordering(nodes, seed, breaker))
				c.Run(40 * time.Second)
				c.Order(1, 0)
				took := c.fencedAfter(time.Minute, 1, 0)
				c.Run(2 * time.Second)
				for i := 1; i < nodes; i++ {
					if !c.nodes[i].core.Deaths().Fenced().Has(0) || c.nodes[i].core.Deaths().Of(0).Proof != watchdog.ProofSentence {
						t.Errorf("%s, %d nodes, seed %d, n%d: %+v", breaker, nodes, seed, i+1, c.nodes[i].core.Deaths().Of(0))
					}
				}
				if took == 0 || took > 10*time.Second || c.check.ByOrder != 1 || c.check.Obeyed != 1 || c.Resets() != 1 || len(c.Violations()) > 0 {
					t.Errorf("%s, %d nodes, seed %d: after %v, %d by order, %d resets, %v\n%s", breaker, nodes, seed, took, c.check.ByOrder, c.Resets(), c.Violations(), c.Report())
				}
				worst = max(worst, took)
			}
		}
	}
	t.Logf("FENCED after %v at the latest", worst)
}

// Guards: the reasons for which an order is refused, each with the answer to the node that gave it.
func TestOrdersThatComeToNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*Cluster)
		want   watchdog.Refusal
	}{
		"itself": {func(c *Cluster) { c.Order(1, 1) }, watchdog.RefusedSelf},
		"under maintenance": {func(c *Cluster) {
			c.Disable(0, true)
			c.Run(3 * time.Second)
			c.Order(1, 0)
		}, watchdog.RefusedUnguarded},
		"out of reach": {func(c *Cluster) {
			c.cfg.Reboot = 0
			c.Kill(0)
			c.Run(20 * time.Second)
			c.Order(1, 0)
		}, watchdog.RefusedUnreached},
		"the others would be too few": {func(c *Cluster) {
			c.Kill(4)
			c.Kill(3)
			c.Run(90 * time.Second)
			c.Order(1, 0)
		}, watchdog.RefusedQuorum},
		"in the smaller part": {func(c *Cluster) {
			c.Split([][]int{{0, 1}, {2, 3, 4}})
			c.Run(6 * time.Second)
			c.Order(1, 0)
		}, watchdog.RefusedNoMajority},
		"while another node ends": {func(c *Cluster) {
			c.Order(1, 0)
			c.Order(1, 2)
		}, watchdog.RefusedBusy},
		"a moment after another node": {func(c *Cluster) {
			c.Order(1, 0)
			c.Run(15 * time.Second)
			c.Order(1, 2)
		}, watchdog.RefusedSoon},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				c := New(ordering(5, seed, "lun"))
				c.Run(40 * time.Second)
				before := c.check.ByOrder
				tc.before(c)
				c.Run(15 * time.Second)
				if c.check.Forbidden[tc.want] != 1 || c.check.ByOrder-before > 1 || len(c.Violations()) > 0 {
					t.Errorf("seed %d: %v, %d by order, %v", seed, c.check.Forbidden, c.check.ByOrder, c.Violations())
				}
			}
		})
	}
}

// Guard: if two nodes give orders at once, against each other or against two others, only one node at a time ends. A
// node that lies, and orders all others to end at once, ends no more than a majority can spare.
func TestOrdersAtOnce(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 5
	}
	for _, breaker := range breakers {
		for seed := range seeds {
			for name, give := range map[string]func(*Cluster){
				"each other": func(c *Cluster) { c.Order(0, 1); c.Order(1, 0) },
				"two others": func(c *Cluster) { c.Order(0, 3); c.Order(1, 4) },
				"three":      func(c *Cluster) { c.Order(0, 3); c.Order(1, 4); c.Order(2, 0) },
				"a liar":     func(c *Cluster) { c.Lie(0) },
			} {
				c := New(ordering(5, seed, breaker))
				c.Run(40*time.Second + time.Duration(seed)*97*time.Millisecond)
				give(c)
				c.Run(20 * time.Second)
				if c.check.ByOrder != 1 || len(c.Violations()) > 0 {
					t.Errorf("%s, %s, seed %d: %d nodes have obeyed, %v", name, breaker, seed, c.check.ByOrder, c.Violations())
				}
				if c.Run(3 * time.Minute); len(c.Feeding()) < 3 || len(c.Violations()) > 0 {
					t.Errorf("%s, %s, seed %d: %v live, %v", name, breaker, seed, c.Feeding(), c.Violations())
				}
			}
		}
	}
}

// randomOrders is a random schedule in which nodes order each other to end all the time.
func randomOrders(seed uint64) *Cluster {
	rng := rand.New(rand.NewPCG(seed, 0x0bde))
	cfg := DefaultConfig(3+rng.IntN(5), seed)
	cfg.Orders, cfg.Devices = true, 1+2*rng.IntN(2)
	if rng.IntN(3) == 0 {
		cfg.LUN, cfg.Lease = false, rng.IntN(2) == 0
	}
	cfg.Watchdog, cfg.Feed, cfg.Reboot = 6*time.Second, time.Second, time.Duration(5+rng.IntN(30))*time.Second
	cfg.Timing.Expire = cfg.Timing.Grant + cfg.Feed + cfg.Margin
	cfg = cfg.withSentences(seed)
	cfg.Before = 0
	c := New(cfg)
	c.Run(time.Duration(10+rng.IntN(10)) * time.Second)
	if rng.IntN(3) == 0 {
		c.Lie(rng.IntN(cfg.Nodes))
	}
	for range 25 {
		if rng.IntN(3) > 0 {
			disturbAll(c, rng)
		}
		for range 1 + rng.IntN(3) {
			c.Order(rng.IntN(cfg.Nodes), rng.IntN(cfg.Nodes))
			c.Run(time.Duration(rng.Int64N(int64(3 * time.Second))))
		}
		c.Run(time.Duration(rng.Int64N(int64(15 * time.Second))))
		if rng.IntN(2) == 0 {
			c.Heal()
			for i := range cfg.Nodes {
				c.Start(i)
				c.Resume(i)
				c.Disable(i, false)
			}
			c.Run(time.Duration(rng.Int64N(int64(50 * time.Second))))
		}
	}
	return c
}

// disturbAll is disturb for groups that may have no LUN.
func disturbAll(c *Cluster, rng *rand.Rand) {
	n := len(c.nodes)
	switch rng.IntN(9) {
	case 0:
		c.Split(randomGroups(rng, n))
	case 1:
		c.Heal()
	case 2:
		if a, b := rng.IntN(n), rng.IntN(n); a != b {
			c.CutOneWay(a, b)
		}
	case 3:
		c.Kill(rng.IntN(n))
	case 4:
		c.RestartAgent(rng.IntN(n))
	case 5:
		c.Pause(rng.IntN(n))
	case 6:
		c.Disable(rng.IntN(n), rng.IntN(2) == 0)
	case 7:
		c.SetWeather(rng.IntN(len(c.cfg.Networks)), Weather{Loss: max(0, rng.Float64()-0.5)})
	case 8:
		if c.cfg.LUN {
			c.LUNFaults(rng.IntN(n), &Faults{Down: rng.IntN(2) == 0, Slow: time.Duration(rng.Int64N(int64(5 * time.Second)))}, c.someDevices(rng)...)
		}
	}
}

// TestRandomOrders compares orders with the truth under all faults.
func TestRandomOrders(t *testing.T) {
	b := asked(t, 150, 40, 1)
	obeyed, forbidden, resets, proofs := 0, map[watchdog.Refusal]int{}, 0, map[watchdog.Proof]int{}
	b.play(t, func(seed uint64, trace bool, logf func(string, ...any)) *Cluster { return randomOrders(seed) }, func(_ uint64, c *Cluster) {
		obeyed, resets = obeyed+c.check.ByOrder, resets+c.Resets()
		for why, n := range c.check.Forbidden {
			forbidden[why] += n
		}
		for proof, n := range c.Proofs() {
			proofs[proof] += n
		}
	})
	t.Logf("%d schedules from seed %d, 0 violations; %d nodes obeyed, %d resets, deaths published: %v, orders that came to nothing: %v",
		b.runs, b.base, obeyed, resets, proofs, forbidden)
	if b.runs >= 40 && obeyed < b.runs {
		t.Error("hardly any node obeys: the schedules prove nothing")
	}
}
