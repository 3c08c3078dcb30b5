package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// granted is a group of four whose nodes n1 and n2 feed under a grant, cut off from n3 and n4, which had no LUN while
// the split was decided.
func granted(t *testing.T, seed uint64) *Cluster {
	t.Helper()
	c := started(t, DefaultConfig(4, seed))
	for _, i := range []int{2, 3} {
		c.LUNFaults(i, &Faults{Down: true})
	}
	c.Split([][]int{{0, 1}, {2, 3}})
	mustRun(t, c, "n1 and n2 feed under a grant", 20*time.Second, func() bool {
		return c.reason(0) == watchdog.ReasonSplitWon && c.reason(1) == watchdog.ReasonSplitWon
	})
	return c
}

func (c *Cluster) reason(i int) watchdog.Reason { return c.nodes[i].decision.Reason }

// Guard: L1 and L6, all of them together; each alone is covered by the others. The network turns by a quarter, and the
// other side has no LUN, so that no later grant ends the first one. n1 and n2 are now in two components, and must stop
// using the grant without one.
func TestGrantDiesWithoutASuccessor(t *testing.T) {
	for seed := range uint64(5) {
		c := granted(t, seed)
		c.Run(time.Duration(seed) * 700 * time.Millisecond)
		c.Heal()
		c.Split([][]int{{0, 2}, {1, 3}})
		mustRun(t, c, "n1 and n2 stop using the grant", c.cfg.Timing.MaxAge+c.cfg.Timing.Grant, func() bool {
			return c.reason(0) != watchdog.ReasonSplitWon && c.reason(1) != watchdog.ReasonSplitWon
		})
		c.Run(c.cfg.Timing.MaxAge + c.cfg.Timing.Arbitrate) // for a moment each node saw both its peers
		for _, i := range []int{0, 1} {
			if c.reason(i) == watchdog.ReasonSplitWon || c.feeding(c.nodes[i]) {
				t.Fatalf("seed %d: n%d feeds\n%s", seed, i+1, c.Report())
			}
		}
		noViolations(t, c)
	}
}

// Guard: L8 (counterexample 19). The network keeps turning, and all links are lost for a moment each time, so that
// nobody counts a majority: no new tie restarts the clock of the arbitration.
func TestTurningNetworkDoesNotKeepAnybodyFeeding(t *testing.T) {
	c := started(t, DefaultConfig(4, 3))
	for i := range 4 {
		c.LUNFaults(i, &Faults{Down: true})
	}
	turns := [][][]int{{{0, 1}, {2, 3}}, {{0, 2}, {1, 3}}, {{0, 3}, {1, 2}}}
	lost, held := c.Now(), false
	for k := range 10 {
		for _, down := range []bool{true, false} {
			for i := range 4 {
				for network := range c.cfg.Networks {
					c.LinkDown(i, network, down)
				}
			}
		}
		c.Split(turns[k%3])
		c.Run(2 * time.Second)
		switch f := c.Feeding(); {
		case c.Now()-lost < c.cfg.Timing.Arbitrate:
			held = held || len(f) == 4
		case len(f) > 0:
			t.Fatalf("feeding %v after %v\n%s", f, c.Now()-lost, c.Report())
		}
	}
	if !held {
		t.Error("nobody fed during the arbitration: the test proves nothing")
	}
	noViolations(t, c)
}

// Guard: L6 (counterexample 7). Holders whose writes fail, but whose reads return the grant, stop within G.
func TestHolderWhoseWritesFailStops(t *testing.T) {
	for _, f := range []Faults{{Writes: true, Down: true}, {Writes: true, Hung: true}} {
		c := granted(t, 7)
		c.LUNFaults(0, &f)
		c.LUNFaults(1, &f)
		c.Run(c.cfg.Timing.Grant + time.Second)
		for _, i := range []int{0, 1} {
			if c.reason(i) == watchdog.ReasonSplitWon {
				t.Errorf("writes fail %v, hang %v: n%d still feeds under the grant\n%s", f.Down, f.Hung, i+1, c.Report())
			}
		}
		noViolations(t, c)
	}
}

// Guard: L1. An agent that was paused for longer than G does not feed because of what it knew before, not even at the
// moment when it continues. Its half is granted again.
func TestPausedHolderDoesNotFeedByItsOldGrant(t *testing.T) {
	c := granted(t, 9)
	token := c.nodes[0].core.Split().Token
	fed := c.nodes[0].lastFeed
	c.Pause(0)
	c.Run(2 * c.cfg.Timing.Grant)
	if c.nodes[0].lastFeed != fed {
		t.Fatal("a paused agent fed")
	}
	c.Resume(0)
	c.Run(0)
	if now := c.nodes[0].core.Split(); c.feeding(c.nodes[0]) || now.Token == token {
		t.Fatalf("n1 feeds %v with token %v, was %v", c.feeding(c.nodes[0]), now.Token, token)
	}
	mustRun(t, c, "the half is granted again", 20*time.Second, feeds(c, 0, 1))
	c.Run(time.Minute)
	if !slices.Equal(c.Feeding(), []int{0, 1}) {
		t.Fatalf("feeding %v\n%s", c.Feeding(), c.Report())
	}
	noViolations(t, c)
}

// A node sleeps through the grant, the deaths and the return of the others.
func TestLongPauseChangesNothingForTheOthers(t *testing.T) {
	cfg := DefaultConfig(4, 11)
	cfg.Watchdog, cfg.Feed, cfg.Reboot = 6*time.Second, time.Second, 5*time.Second
	cfg.Timing.Expire = cfg.Timing.Grant + cfg.Feed + cfg.Margin
	c := started(t, cfg)
	c.Pause(3)
	c.Run(time.Second)
	c.Split([][]int{{0, 1}, {2, 3}})
	mustRun(t, c, "n1 and n2 feed alone", 30*time.Second, feeds(c, 0, 1))
	c.Heal()
	mustRun(t, c, "everybody is back", 40*time.Second, feeds(c, 0, 1, 2, 3))
	if c.nodes[3].Resets == 0 {
		t.Error("the paused node was not reset")
	}
	noViolations(t, c)
}

// Writes of a node that was reset land when it is already back and takes part in the next split.
func TestLateLandingsAcrossAReset(t *testing.T) {
	for seed := range uint64(20) {
		cfg := DefaultConfig(4, seed)
		cfg.Watchdog, cfg.Feed, cfg.Reboot = 6*time.Second, time.Second, time.Second
		cfg.Timing.Expire = cfg.Timing.Grant + cfg.Feed + cfg.Margin
		c := started(t, cfg)
		for _, i := range []int{0, 1} {
			c.LUNFaults(i, &Faults{Hung: true})
		}
		c.Split([][]int{{0, 1}, {2, 3}})
		if !c.RunUntil(40*time.Second, func() bool { return c.Resets() == 2 }) {
			t.Fatalf("seed %d: %d resets\n%s", seed, c.Resets(), c.Report())
		}
		c.Run(time.Duration(1+seed%7) * time.Second)
		for _, i := range []int{0, 1} {
			c.LUNFaults(i, nil)
		}
		c.Heal()
		if !c.RunUntil(40*time.Second, feeds(c, 0, 1, 2, 3)) {
			t.Fatalf("seed %d: not all nodes are back\n%s", seed, c.Report())
		}
		c.Split([][]int{{0, 2}, {1, 3}})
		if !c.RunUntil(30*time.Second, func() bool { return len(c.Feeding()) == 2 }) {
			t.Fatalf("seed %d: feeding %v\n%s", seed, c.Feeding(), c.Report())
		}
		noViolations(t, c)
	}
}

// A granted half survives the loss of all its paths to the LUN but one, thanks to the statements of the node that has
// that path. The rest of the half calls nobody dead because of what it read before. When the last path is lost, the
// half stops within G. Guards: L7 and the silence of L1.
func TestGrantedHalfLivesByOnePathToTheLUN(t *testing.T) {
	for seed := range uint64(6) {
		cfg := DefaultConfig(6, seed)
		cfg.Devices = 1 + 2*int(seed%2)
		c := started(t, cfg)
		for _, i := range []int{3, 4, 5} {
			c.LUNFaults(i, &Faults{Down: true})
		}
		c.Split([][]int{{0, 1, 2}, {3, 4, 5}})
		mustRun(t, c, "n1 to n3 feed under a grant", 20*time.Second, func() bool {
			return c.reason(0) == watchdog.ReasonSplitWon && c.reason(1) == watchdog.ReasonSplitWon && c.reason(2) == watchdog.ReasonSplitWon
		})
		c.Run(2 * time.Second)
		f := Faults{Down: true}
		if seed >= 3 {
			f = Faults{Hung: true}
		}
		c.LUNFaults(0, &f)
		c.LUNFaults(2, &f)
		c.Run(5 * time.Minute)
		if !feeds(c, 0, 1, 2)() || c.Resets() != 3 {
			t.Fatalf("seed %d: feeding %v, %d resets\n%s", seed, c.Feeding(), c.Resets(), c.Report())
		}
		if blind, seeing := c.nodes[0].core.Deaths().Fenced(), c.nodes[1].core.Deaths().Fenced(); !blind.IsEmpty() || seeing.Len() != 3 {
			t.Errorf("seed %d: without the LUN %d deaths are known, with it %d of 3", seed, blind.Len(), seeing.Len())
		}
		c.LUNFaults(1, &Faults{Hung: true})
		c.Run(cfg.Timing.Grant + time.Second)
		if got := c.Feeding(); len(got) != 0 {
			t.Errorf("seed %d: feeding %v although nobody has written for G\n%s", seed, got, c.Report())
		}
		noViolations(t, c)
	}
}

// Guard: L5. The holders' grants last longer than the others', which take over only when the holders no longer feed. By
// their own times they would do so while both halves feed.
func TestTakeOverWaitsForTheHoldersGrant(t *testing.T) {
	cfg := DefaultConfig(4, 5)
	cfg.Watchdog, cfg.Feed, cfg.Reboot = 6*time.Second, time.Second, 5*time.Second
	cfg.Timing.Expire = cfg.Timing.Grant + cfg.Feed + cfg.Margin
	odd := cfg.Times
	odd.Timing.Grant = 90 * time.Second
	odd.Timing.Expire = odd.Timing.Grant + cfg.Feed + cfg.Margin
	cfg.Odd = &odd
	c := started(t, cfg)
	c.LUNFaults(0, &Faults{Down: true})
	c.LUNFaults(2, &Faults{Down: true})
	c.Split([][]int{{1, 3}, {0, 2}})
	mustRun(t, c, "n2 and n4 feed under a grant, and the others are back from their resets", time.Minute, func() bool {
		return c.reason(1) == watchdog.ReasonSplitWon && c.reason(3) == watchdog.ReasonSplitWon && c.Resets() == 2 && c.nodes[0].up && c.nodes[2].up
	})
	c.LUNFaults(0, nil)
	c.LUNFaults(2, nil)
	c.Run(5 * time.Second)
	c.LUNFaults(1, &Faults{Hung: true})
	c.LUNFaults(3, &Faults{Hung: true})
	mustRun(t, c, "n1 and n3 take over", 3*time.Minute, func() bool {
		if c.reason(0) == watchdog.ReasonSplitWon && (c.feeding(c.nodes[1]) || c.feeding(c.nodes[3])) {
			t.Fatalf("%v: both halves feed\n%s", c.Now(), c.Report())
		}
		return c.reason(0) == watchdog.ReasonSplitWon && c.reason(2) == watchdog.ReasonSplitWon
	})
	noViolations(t, c)
}
