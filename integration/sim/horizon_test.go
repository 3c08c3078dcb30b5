package sim

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// reconfigured kills the agent of a node and starts it with a longer watchdog. The peers reckon with
// the horizon of the one before until they have the word of the new one.
func (c *Cluster) reconfigured(i int, w time.Duration) {
	t := *c.times(c.nodes[i])
	t.Watchdog = w
	c.Reconfigure(i, t)
	c.RestartAgent(i)
}

// Guard: a node does not arm for longer than its peers know. Here the new agent of n1 has seen a majority
// and is cut off before any of them has asked it. In the tie that follows it may still feed.
func TestArmedNoLongerThanThePeersKnow(t *testing.T) {
	proven := 0
	for seed := range uint64(20) {
		cfg := shortLived(4, seed)
		cfg.Lease = seed%2 > 0
		cfg.LUN = !cfg.Lease
		c := started(t, cfg)
		c.Run(2 * time.Minute) // a Lease is granted when it has stood for long enough
		for _, i := range []int{0, 3} {
			if cfg.Lease {
				c.APIFaults(i, APIFaults{Down: true})
			} else {
				c.LUNFaults(i, &Faults{Down: true})
			}
		}
		c.reconfigured(0, time.Minute)
		for c.nodes[0].link(1, 3).asked[0] == 0 { // it asks all of them at once
			c.Run(100 * time.Microsecond)
		}
		for p := 1; p < 4; p++ {
			c.CutOneWay(0, p) // they answer, ask back because of what is new, and hear nothing
		}
		c.Run(5 * time.Millisecond)
		c.Split([][]int{{0, 3}, {1, 2}})
		if c.RunUntil(c.proofTime()+c.cfg.Timing.Arbitrate, c.proves(1, 0)) { // not by who happens to have heard the new agent
			proven++
		}
		if c.nodes[0].Resets != 1 {
			t.Errorf("seed %d: n1 was reset %d times", seed, c.nodes[0].Resets)
		}
		noViolations(t, c)
	}
	if proven < 15 {
		t.Errorf("n2 proved the death in %d of 20 histories", proven)
	}
}

// Guard: a grant that names this node is enough to arm in a tie, and the other half, granted next, looks
// into the slot for how long that may last. Here n2 and n4 last heard of n1 when its watchdog was
// short. They could die first and be silent, so their own watchdogs are long.
func TestGrantWaitsForTheHorizonInTheSlot(t *testing.T) {
	for seed := range uint64(10) {
		cfg := shortLived(4, seed)
		cfg.Watchdog = 20 * time.Second
		cfg.Odd = &Times{Timing: cfg.Timing, Feed: cfg.Feed, Watchdog: 10 * time.Minute}
		c := started(t, cfg.withoutSentences())
		for _, i := range []int{1, 3} {
			c.LUNFaults(i, &Faults{Down: true})
		}
		c.Split([][]int{{0, 2}, {1, 3}})
		mustRun(t, c, "n1 is granted", 20*time.Second, func() bool { return c.reason(0) == watchdog.ReasonSplitWon })
		c.reconfigured(0, 5*time.Minute)
		mustRun(t, c, "n1 arms under a grant", cfg.Watchdog, func() bool { return c.nodes[0].open && c.reason(0) == watchdog.ReasonSplitWon })
		c.Run(3 * time.Second) // the slot says so
		c.Split([][]int{{0}, {2}})
		for _, i := range []int{1, 3} {
			c.LUNFaults(i, nil)
		}
		mustRun(t, c, "n2 is granted", time.Minute, func() bool { return c.reason(1) == watchdog.ReasonSplitWon })
		mustRun(t, c, "the death of n1 is proven", 15*time.Minute, c.proves(1, 0))
		noViolations(t, c)
	}
}
