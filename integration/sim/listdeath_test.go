package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// changing is a group with short watchdogs, whose first list contains all nodes.
func changing(t *testing.T, seed uint64, lists ...[]int) *Cluster {
	t.Helper()
	cfg := shortLived(len(lists[0]), seed)
	cfg.Lists = lists
	c := New(cfg)
	c.Trace(func(f string, args ...any) { t.Logf("%8v "+f, append([]any{c.Now()}, args...)...) })
	mustRun(t, c, "the first list's members feed", 20*time.Second, feeds(c, lists[0]...))
	// By then all nodes have heard that all are armed.
	c.Run(3 * time.Second)
	return c
}

// Guard: a node gives up its guard when a majority of its list knows of that. Those that know may leave the list
// afterwards. The rest last heard that the node was armed, and must not prove its death while it runs.
func TestThoseWhoKnewLeaveTheList(t *testing.T) {
	for seed := range uint64(5) {
		c := changing(t, seed, seq(0, 5), []int{0, 1, 4}, []int{0, 1, 3, 4})
		c.Split([][]int{{0, 1}, {4}}) // nodes 0 and 1 do not hear that the guard is given up
		c.Run(2 * time.Second)
		c.Disable(4, true)
		mustRun(t, c, "n5 is disarmed", 10*time.Second, func() bool { return !c.nodes[4].armed })
		c.Split([][]int{{0, 1, 2, 3}, {4}})
		c.Run(6 * time.Second)
		c.Tell(0, 1)
		mustRun(t, c, "the nodes that knew have left the list", 20*time.Second, goBy(c, 1, 0, 1))
		c.Run(3 * c.proofTime())
		noViolations(t, c)
		// Nobody learns of it from a later list either.
		c.Tell(0, 2)
		mustRun(t, c, "one of them is back", 20*time.Second, goBy(c, 2, 0, 1, 3))
		c.Kill(3)
		c.Run(3 * c.proofTime())
		noViolations(t, c)
	}
}

// A change of the list does not make a death unprovable if no removed node knew better.
func TestDeathIsProvenOverAChangeOfTheList(t *testing.T) {
	for seed := range uint64(5) {
		c := changing(t, seed, seq(0, 6), seq(0, 5))
		c.Split([][]int{seq(0, 4), {4}, {5}})
		c.Run(6 * time.Second)
		c.Tell(0, 1)
		mustRun(t, c, "n6 is removed", 20*time.Second, goBy(c, 1, 0, 1, 2, 3))
		for w := range 4 {
			mustRun(t, c, "the death of n5 is proven", 2*c.proofTime(), c.proves(w, 4))
		}
		noViolations(t, c)
	}
}

// Guard: claims from before a change of the list do not count as claims by a majority of the next list until they have
// been repeated for their time. Until the change the others counted the victim, and it was fed. In the end it is dead,
// and that is proven in all but one case of twenty. The exception: a node follows the list in a step in which none of
// those that followed it before still takes the victim for guarded. What that node heard of the guard then stays in
// doubt for good.
func TestClaimsFromBeforeAChange(t *testing.T) {
	proven := 0
	for seed := range uint64(20) {
		c := changing(t, seed, seq(0, 5), []int{0, 1, 4})
		c.Split([][]int{{0, 1}, {4}})
		c.Run(2 * c.proofTime())
		c.Tell(0, 1)
		mustRun(t, c, "the list is in force", 20*time.Second, goBy(c, 1, 0, 1))
		c.Run(2 * c.proofTime())
		n := c.nodes[0]
		if i, listed := n.roster.Index(c.nodes[4].Name); listed && n.core.Deaths().Fenced().Has(i) {
			proven++
		}
		noViolations(t, c)
	}
	if proven < 15 {
		t.Errorf("the death is proven in only %d of 20 cases", proven)
	}
}

// A node goes into maintenance, or is reset, and some nodes do not hear of it. Then it is cut off, and the list changes
// once or twice, with restarts of agents in between.
func TestRandomListsAroundAStop(t *testing.T) {
	runs := 200
	if testing.Short() {
		runs = 25
	}
	proofs := 0
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 0xdea7))
		n := 4 + rng.IntN(3)
		pause := func(c *Cluster) { c.Run(time.Duration(rng.Int64N(int64(8 * time.Second)))) }
		cfg := shortLived(n, seed)
		cfg.LUN, cfg.Reboot = rng.IntN(3) == 0, time.Duration(rng.IntN(2))*20*time.Second
		x := rng.IntN(n)
		cfg.Lists = [][]int{seq(0, n)}
		for range 3 {
			l := append(rng.Perm(n)[:1+rng.IntN(n-1)], x)
			slices.Sort(l)
			cfg.Lists = append(cfg.Lists, slices.Compact(l))
		}
		c := New(cfg)
		c.Run(20 * time.Second)
		for _, deaf := range rng.Perm(n)[:rng.IntN(n)] {
			c.Split([][]int{{deaf}, {x}})
		}
		pause(c)
		if rng.IntN(4) > 0 {
			c.Disable(x, true)
		} else {
			c.RestartAgent(x)
		}
		pause(c)
		for p := range n {
			c.Split([][]int{{p}, {x}})
		}
		for epoch := range 1 + rng.IntN(3) {
			pause(c)
			c.Tell((x+1+rng.IntN(n-1))%n, epoch+1)
			if rng.IntN(4) == 0 {
				c.RestartAgent(rng.IntN(n))
			}
			if rng.IntN(4) == 0 {
				c.Disable(x, false)
			}
			c.Run(time.Duration(rng.IntN(2)+1) * c.proofTime())
		}
		if v := c.Violations(); len(v) > 0 {
			t.Fatalf("seed %d, lists %v: %s", seed, cfg.Lists, strings.Join(v, "\n"))
		}
		for _, k := range c.Proofs() {
			proofs += k
		}
	}
	if proofs == 0 {
		t.Error("no death was ever proven: the schedules prove nothing")
	}
	t.Logf("%d proofs", proofs)
}
