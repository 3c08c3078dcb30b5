package sim

import (
	"slices"
	"testing"
	"time"
)

func mustRun(t *testing.T, c *Cluster, what string, limit time.Duration, cond func() bool) time.Duration {
	t.Helper()
	from := c.Now()
	if !c.RunUntil(limit, cond) {
		t.Fatalf("%s: did not happen within %v\n%s", what, limit, c.Report())
	}
	return c.Now() - from
}

func feeds(c *Cluster, want ...int) func() bool {
	return func() bool { return slices.Equal(c.Feeding(), want) }
}

// feedsAcross reports whether two nodes of different halves 0,1 | 2,3 feed.
func feedsAcross(c *Cluster) bool {
	f := c.Feeding()
	return len(f) > 0 && f[0] < 2 && f[len(f)-1] >= 2
}

func noViolations(t *testing.T, c *Cluster) {
	t.Helper()
	for _, v := range c.Violations() {
		t.Error(v)
	}
}

func started(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	c := New(cfg)
	if testing.Verbose() {
		c.Trace(func(format string, args ...any) { t.Logf("%8v "+format, append([]any{c.Now()}, args...)...) })
	}
	all := make([]int, cfg.Nodes)
	for i := range all {
		all[i] = i
	}
	mustRun(t, c, "everybody feeds", 20*time.Second, feeds(c, all...))
	c.Run(10 * time.Second) // the slots are claimed by then
	return c
}

func TestEqualSplitIsWonByExactlyOneHalfAndHeals(t *testing.T) {
	for seed := range uint64(20) {
		c := started(t, DefaultConfig(4, seed).withoutSentences())
		c.Split([][]int{{0, 1}, {2, 3}})
		took := mustRun(t, c, "one half feeds", 15*time.Second, func() bool {
			f := c.Feeding()
			return len(f) == 2 && (f[0] == 0 && f[1] == 1 || f[0] == 2 && f[1] == 3)
		})
		winners := c.Feeding()
		c.Run(10 * time.Second)
		if !slices.Equal(c.Feeding(), winners) {
			t.Fatalf("seed %d: the grant did not hold:\n%s", seed, c.Report())
		}
		c.Heal()
		mustRun(t, c, "everybody is back", 10*time.Second, feeds(c, 0, 1, 2, 3))
		if c.Resets() != 0 {
			t.Fatalf("seed %d: %d resets, although the network healed in time", seed, c.Resets())
		}
		noViolations(t, c)
		t.Logf("seed %d: half %v after %v", seed, winners, took)
	}
}

func TestEqualSplitLosersAreResetAndWinnersAreNot(t *testing.T) {
	for _, n := range []int{2, 4, 6, 10} {
		c := started(t, DefaultConfig(n, uint64(n)))
		half := make([][]int, 2)
		for i := range n {
			half[i/(n/2)] = append(half[i/(n/2)], i)
		}
		c.Split(half)
		c.Run(c.cfg.Budget().Tie())
		if c.Resets() != n/2 || len(c.Feeding()) != n/2 {
			t.Fatalf("n=%d: %d resets, feeding %v\n%s", n, c.Resets(), c.Feeding(), c.Report())
		}
		noViolations(t, c)
	}
}

func TestMajorityNeedsNoLUN(t *testing.T) {
	c := started(t, DefaultConfig(5, 3))
	for i := range 5 {
		c.LUNFaults(i, &Faults{Down: true})
	}
	c.Split([][]int{{0, 1, 2}, {3, 4}})
	c.Run(c.cfg.Budget().Majority())
	if !feeds(c, 0, 1, 2)() || c.Resets() != 2 {
		t.Fatalf("feeding %v, resets %d\n%s", c.Feeding(), c.Resets(), c.Report())
	}
	noViolations(t, c)
}

func TestLUNOutageAloneResetsNobody(t *testing.T) {
	c := started(t, DefaultConfig(4, 4))
	for i := range 4 {
		c.LUNFaults(i, &Faults{Hung: true})
	}
	c.Run(10 * time.Minute)
	if !feeds(c, 0, 1, 2, 3)() || c.Resets() != 0 {
		t.Fatalf("feeding %v, resets %d", c.Feeding(), c.Resets())
	}
	for i := range 4 {
		c.LUNFaults(i, nil)
	}
	c.Run(20 * time.Second)
	c.Split([][]int{{0, 3}, {1, 2}})
	mustRun(t, c, "the LUN arbitrates again", 15*time.Second, func() bool { return len(c.Feeding()) == 2 })
	noViolations(t, c)
}

func TestOneNetworkOfTwoMovesNobody(t *testing.T) {
	c := started(t, DefaultConfig(4, 5))
	for i := range 4 {
		c.Events(i)
	}
	c.Split([][]int{{0, 1}, {2, 3}}, 0)
	c.Run(time.Minute)
	for i := range 4 {
		if e := c.Events(i); len(e) > 0 {
			t.Errorf("n%d published %v", i+1, e)
		}
	}
	if !feeds(c, 0, 1, 2, 3)() {
		t.Fatalf("feeding %v", c.Feeding())
	}
}

// Guard: L1, L6. Nodes 1 and 2 must not use the grant {1,2} in two components.
func TestGrantDiesWhenItsHalfIsBroken(t *testing.T) {
	c := started(t, DefaultConfig(4, 6))
	c.Split([][]int{{0, 1}, {2, 3}})
	mustRun(t, c, "one half feeds", 15*time.Second, func() bool { return len(c.Feeding()) == 2 })
	c.Run(3 * time.Second)
	c.Heal()
	c.Split([][]int{{0, 2}, {1, 3}})
	c.Run(40 * time.Second)
	if f := c.Feeding(); len(f) == 2 && f[0]+f[1] == 3 {
		t.Fatalf("feeding %v across the cut", f)
	}
	noViolations(t, c)
}

// Calm: an agent restart in the living half costs no node its life, not even with a watchdog that would not wait long.
// Guards: Timing.Takeover, and that it does not delay the holders themselves.
func TestHolderRestartRegrantsItsHalf(t *testing.T) {
	for seed := range uint64(20) {
		cfg := DefaultConfig(4, seed)
		cfg.Watchdog, cfg.Feed = 10*time.Second, 2*time.Second
		cfg.Timing.Expire = cfg.Timing.Grant + cfg.Feed + cfg.Margin
		restartHolder(t, cfg)
	}
}

func restartHolder(t *testing.T, cfg Config) {
	t.Helper()
	c := started(t, cfg)
	c.Split([][]int{{0, 1}, {2, 3}})
	mustRun(t, c, "one half is granted", 15*time.Second, func() bool { return len(c.Feeding()) == 2 && !feedsAcross(c) })
	c.Run(6 * time.Second)
	won := c.Feeding()
	c.RestartAgent(won[0])
	mustRun(t, c, "the half is granted again", 8*time.Second, feeds(c, won...))
	c.Run(time.Minute)
	if !slices.Equal(c.Feeding(), won) || c.Resets() != 2 {
		t.Fatalf("seed %d: feeding %v, want %v; %d resets, want those of the losers\n%s", cfg.Seed, c.Feeding(), won, c.Resets(), c.Report())
	}
	noViolations(t, c)
}

// Survival: one half has the LUN, and the other does not; the half that has it lives.
func TestHalfWithTheLUNLives(t *testing.T) {
	for seed := range uint64(10) {
		c := started(t, DefaultConfig(4, seed))
		for _, i := range []int{0, 1} {
			c.LUNFaults(i, &Faults{Down: true})
		}
		c.Split([][]int{{0, 1}, {2, 3}})
		c.Run(c.cfg.Budget().Tie())
		if !feeds(c, 2, 3)() {
			t.Fatalf("seed %d: feeding %v\n%s", seed, c.Feeding(), c.Report())
		}
		noViolations(t, c)
	}
}

func TestUncontendedVerdictTakesFiveIOs(t *testing.T) {
	c := started(t, DefaultConfig(2, 1))
	c.Kill(1)
	mustRun(t, c, "the survivor is granted", 15*time.Second, func() bool {
		return slices.Equal(c.Feeding(), []int{0}) && c.nodes[0].decision.Reason.String() == "split_won"
	})
	for _, a := range c.Attempts() {
		if a.Decided && a.IOs > 5 {
			t.Errorf("decided after %d I/Os", a.IOs)
		}
	}
	if len(c.Attempts()) != 1 {
		t.Errorf("%d ballots, want 1: %+v", len(c.Attempts()), c.Attempts())
	}
}
