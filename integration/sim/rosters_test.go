package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// goBy reports whether the nodes use only the list of an epoch.
func goBy(c *Cluster, epoch int, nodes ...int) func() bool {
	return func() bool {
		return !slices.ContainsFunc(nodes, func(i int) bool {
			s := c.nodes[i].core.Rosters().Succession()
			return !c.nodes[i].up || s.Fresh() || len(s.Chain()) != 1 || s.Base().Epoch != uint64(epoch)
		})
	}
}

// joined is a running group with lists of members, the first of which is in force.
func joined(t *testing.T, n int, seed uint64, lists ...[]int) *Cluster {
	t.Helper()
	cfg := DefaultConfig(n, seed)
	cfg.Lists = lists
	c := New(cfg)
	c.Trace(func(f string, args ...any) { t.Logf("%8v "+f, append([]any{c.Now()}, args...)...) })
	mustRun(t, c, "the first list's members feed", 20*time.Second, feeds(c, lists[0]...))
	return c
}

// One node joins, one leaves, one is replaced, and only one node reads each new list. No node that stays loses its
// permission for a moment or is reported as LEFT.
func TestMembersChangeWithoutLosingQuorum(t *testing.T) {
	for seed := range uint64(5) {
		c := joined(t, 5, seed, []int{0, 1, 2}, []int{0, 1, 2, 3}, []int{1, 2, 3}, []int{1, 2, 4})
		for epoch := 1; epoch < 4; epoch++ {
			for i := range 5 {
				c.Events(i)
			}
			was, is := c.cfg.Lists[epoch-1], c.cfg.Lists[epoch]
			c.Tell(was[int(seed)%3], epoch)
			stay := slices.DeleteFunc(slices.Clone(was), func(i int) bool { return !slices.Contains(is, i) })
			calm := func() bool {
				return !slices.ContainsFunc(stay, func(i int) bool { return !slices.Contains(c.Feeding(), i) })
			}
			done := goBy(c, epoch, is...)
			for range 200 {
				c.Run(20 * time.Millisecond)
				if !calm() {
					t.Fatalf("seed %d, epoch %d: a node lost its permission:\n%s", seed, epoch, c.Report())
				}
			}
			mustRun(t, c, "the list is in force", 20*time.Second, done)
			mustRun(t, c, "its members feed", 20*time.Second, feeds(c, is...))
			c.Run(time.Minute)
			for _, i := range stay {
				for _, e := range c.Events(i) {
					gone := slices.ContainsFunc(was, func(k int) bool { return !slices.Contains(is, k) && e == "LEFT "+c.nodes[k].Name })
					if strings.HasPrefix(e, "LEFT") && !gone {
						t.Errorf("seed %d, epoch %d: %s says %s", seed, epoch, c.nodes[i].Name, e)
					}
				}
			}
		}
		if c.Resets() != 0 || c.nodes[0].decision.Action != watchdog.Disarm {
			t.Errorf("seed %d: %d resets; the removed node: %+v", seed, c.Resets(), c.nodes[0].decision)
		}
		noViolations(t, c)
	}
}

// A node that slept through a change catches up with the present list.
func TestNodeThatMissedChangesCatchesUp(t *testing.T) {
	c := joined(t, 4, 1, []int{0, 1, 2}, []int{0, 1, 2, 3}, []int{0, 1, 2})
	c.Kill(2)
	c.Run(time.Second)
	c.Tell(0, 1)
	mustRun(t, c, "four members", 20*time.Second, goBy(c, 1, 0, 1, 3))
	c.Tell(1, 2)
	mustRun(t, c, "three again", 20*time.Second, goBy(c, 2, 0, 1))
	c.Start(2)
	mustRun(t, c, "the third catches up", 20*time.Second, goBy(c, 2, 0, 1, 2))
	mustRun(t, c, "and feeds", 20*time.Second, feeds(c, 0, 1, 2))
	noViolations(t, c)
}

// This test is RandomSchedule with changes of the list added: cuts, crashes, pauses and LUN faults meet changes at
// every stage.
func TestRandomRosterChanges(t *testing.T) {
	runs := 150
	if testing.Short() {
		runs = 25
	}
	settled := 0
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 0x30571))
		n := 3 + rng.IntN(4)
		cfg := DefaultConfig(n, seed)
		cfg.LUN = rng.IntN(2) == 0
		cfg.Watchdog, cfg.Feed, cfg.Reboot = 6*time.Second, time.Second, time.Duration(5+rng.IntN(20))*time.Second
		cfg.Timing.Expire = cfg.Timing.Grant + cfg.Feed + cfg.Margin
		for range 2 + rng.IntN(3) {
			cfg.Lists = append(cfg.Lists, rng.Perm(n)[:1+rng.IntN(n)])
		}
		last := len(cfg.Lists) - 1
		for i := range n {
			if !slices.ContainsFunc(cfg.Lists, func(l []int) bool { return slices.Contains(l, i) }) {
				cfg.Lists[last] = append(cfg.Lists[last], i)
			}
		}
		c := New(cfg)
		for range 30 {
			if rng.IntN(3) == 0 {
				c.Tell(rng.IntN(n), rng.IntN(last+1))
			} else if cfg.LUN {
				disturb(c, rng)
			} else {
				disturbNetwork(c, rng)
			}
			c.Run(time.Duration(rng.Int64N(int64(8 * time.Second))))
			if v := c.Violations(); len(v) > 0 {
				t.Fatalf("seed %d, lists %v: %s", seed, cfg.Lists, strings.Join(v, "\n"))
			}
		}
		for _, node := range c.nodes {
			if node.up && node.core.Rosters().Succession().Base().Epoch > 0 && !node.core.Rosters().Succession().Fresh() {
				settled++
			}
		}
	}
	if settled == 0 {
		t.Error("no change was ever settled: the schedules prove nothing")
	}
	t.Logf("%d nodes used a later list in the end", settled)
}

// disturbNetwork makes one random change that needs no LUN.
func disturbNetwork(c *Cluster, rng *rand.Rand) {
	n := len(c.nodes)
	switch rng.IntN(6) {
	case 0, 1:
		c.Heal()
		c.Split(randomGroups(rng, n))
	case 2:
		c.Heal()
	case 3:
		c.Kill(rng.IntN(n))
	case 4:
		for i := range n {
			c.Start(i)
			c.Resume(i)
		}
	case 5:
		c.Pause(rng.IntN(n))
	}
}
