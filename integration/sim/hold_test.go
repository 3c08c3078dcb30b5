package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

func (c *Cluster) reasons() (out []watchdog.Reason) {
	for _, n := range c.nodes {
		out = append(out, n.decision.Reason)
	}
	return out
}

func TestOutageOfAllNetworksResetsNobody(t *testing.T) {
	for _, nodes := range []int{3, 4, 5, 8} {
		for _, devices := range []int{1, 3} {
			for _, minutes := range []int{1, 5, 30} {
				if testing.Short() && minutes > 5 {
					continue
				}
				t.Run(fmt.Sprintf("%d nodes, %d devices, %d min", nodes, devices, minutes), func(t *testing.T) {
					cfg := DefaultConfig(nodes, uint64(nodes*100+minutes))
					cfg.Devices = devices
					c := New(cfg)
					c.Run(40 * time.Second)
					for i := range nodes {
						c.Events(i)
					}
					c.Silence()
					c.Run(5 * time.Second)
					for i := range nodes {
						if left := c.Events(i); len(left) != nodes-1 {
							t.Errorf("n%d published %v within 5 s, want a LEFT of each of the others", i+1, left)
						}
					}
					for range minutes * 60 {
						c.Run(time.Second)
						if feeding := c.Feeding(); len(feeding) != nodes {
							t.Fatalf("at %v only %v feed:\n%s", c.Now(), feeding, c.Report())
						}
					}
					if i := slices.IndexFunc(c.reasons(), func(r watchdog.Reason) bool { return r != watchdog.ReasonNobodyLives }); i >= 0 {
						t.Errorf("not all nodes hold by the LUN:\n%s", c.Report())
					}
					c.Heal()
					c.Run(3 * time.Second)
					for i := range nodes {
						if joined := c.Events(i); len(joined) != nodes-1 {
							t.Errorf("n%d published %v within 3 s of the heal, want a JOIN of each of the others", i+1, joined)
						}
					}
					if i := slices.IndexFunc(c.reasons(), func(r watchdog.Reason) bool { return r != watchdog.ReasonNetworkQuorum }); i >= 0 {
						t.Errorf("not all nodes are back:\n%s", c.Report())
					}
					c.Run(2 * time.Minute)
					if c.Resets() != 0 || len(c.Violations()) > 0 || len(c.Proofs()) > 0 {
						t.Errorf("%d resets, proofs of death %v, violations %v", c.Resets(), c.Proofs(), c.Violations())
					}
				})
			}
		}
	}
}

// Without the hold the same outage resets the whole group, which proves that the test above can fail.
func TestOutageOfAllNetworksWithoutHold(t *testing.T) {
	cfg := DefaultConfig(5, 1)
	cfg.NoHold = true
	c := New(cfg)
	c.Run(40 * time.Second)
	c.Silence()
	c.Run(time.Minute)
	if c.Resets() != 5 {
		t.Errorf("%d resets, want all five:\n%s", c.Resets(), c.Report())
	}
}

// A group of two nodes has an equal split, and it is decided as one.
func TestOutageOfTwoNodesIsASplit(t *testing.T) {
	c := New(DefaultConfig(2, 7))
	c.Run(40 * time.Second)
	c.Silence()
	c.Run(2 * time.Minute)
	if c.Resets() != 1 || len(c.Violations()) > 0 {
		t.Errorf("%d resets, violations %v:\n%s", c.Resets(), c.Violations(), c.Report())
	}
}

// A node that holds gives way to nodes that can live: parts that come together at random moments, halves, a majority,
// or one node after the other.
func TestHealInPiecesOfAnOutage(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for run := range 60 {
		cfg := DefaultConfig([]int{3, 4, 5, 8}[run%4], rng.Uint64())
		c := New(cfg)
		c.Run(40 * time.Second)
		c.Silence()
		c.Run(time.Duration(rng.Int64N(int64(2 * time.Minute))))
		var lost int
		if rng.IntN(3) == 0 {
			lost = rng.IntN(cfg.Nodes)
			c.LUNFaults(lost, &Faults{Down: true})
		}
		if rng.IntN(4) == 0 {
			c.Kill(rng.IntN(cfg.Nodes))
		}
		groups := randomGroups(rng, cfg.Nodes)
		c.Heal()
		c.Split(groups)
		c.Run(time.Duration(rng.Int64N(int64(3 * time.Minute))))
		c.Heal()
		c.LUNFaults(lost, nil)
		c.Run(time.Minute)
		if v := c.Violations(); len(v) > 0 {
			t.Fatalf("run %d, groups %v: %v", run, groups, v)
		}
	}
}

// Guard: H6. An outage that reaches the nodes one after the other within D_max makes no node take itself down.
func TestOutageInPiecesStrikesNobody(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for range 40 {
		cfg := DefaultConfig([]int{3, 4, 5, 8}[rng.IntN(4)], rng.Uint64())
		cfg.Strike = true
		c := New(cfg)
		c.Run(40 * time.Second)
		order := rng.Perm(cfg.Nodes)
		for k, i := range order {
			for _, j := range order[k+1:] {
				c.CutOneWay(i, j)
				c.CutOneWay(j, i)
			}
			c.Run(time.Duration(rng.Int64N(int64(cfg.Timing.MaxAge) / int64(cfg.Nodes))))
		}
		c.Run(time.Minute)
		c.Heal()
		c.Run(30 * time.Second)
		if c.Resets() != 0 || len(c.Violations()) > 0 {
			t.Errorf("%d nodes: %d resets, %v\n%s", cfg.Nodes, c.Resets(), c.Violations(), c.Report())
		}
	}
}

// A node that the others live without does not wait for its watchdog, if so configured.
func TestNodeThatOthersLiveWithoutStrikes(t *testing.T) {
	for _, groups := range [][][]int{{{0}, {1, 2, 3, 4}}, {{0, 1}, {2, 3}}} {
		cfg := DefaultConfig(len(groups[0])+len(groups[1]), 5)
		cfg.Strike = true
		c := New(cfg)
		c.Run(40 * time.Second)
		c.Split(groups)
		c.Run(30 * time.Second) // the watchdog fires 30 s after the last feed
		if c.Resets() != len(groups[0]) || len(c.Violations()) > 0 {
			t.Errorf("%v: %d resets, %v\n%s", groups, c.Resets(), c.Violations(), c.Report())
		}
	}
}

// Guard: M1. Two of three nodes find each other after minutes, while the third one holds because of their earlier
// reports. They did not live during that time, and so must not count it towards a claim of its death.
func TestMajorityThatFormsInAnOutageClaimsNothing(t *testing.T) {
	for seed := range uint64(10) {
		c := New(DefaultConfig(3, seed).withoutSentences())
		c.Run(40 * time.Second)
		c.Silence()
		c.Run(5 * time.Minute)
		c.Mend(1, 2)
		for range 100 {
			c.Run(100 * time.Millisecond)
			if fenced := c.nodes[1].core.Deaths().Fenced().Union(c.nodes[2].core.Deaths().Fenced()); fenced.Has(0) && c.nodes[0].Resets == 0 {
				t.Fatalf("seed %d: FENCED of n1 at %v:\n%s", seed, c.Now(), c.Report())
			}
		}
		if c.feeding(c.nodes[0]) || c.reason(0) != watchdog.ReasonIsolated {
			t.Errorf("seed %d: a majority lives without n1:\n%s", seed, c.Report())
		}
		c.Run(2 * c.longest())
		if fenced := c.nodes[1].core.Deaths().Fenced(); !fenced.Has(0) || len(c.Violations()) > 0 {
			t.Errorf("seed %d: n1 fenced %v, %v", seed, fenced.Has(0), c.Violations())
		}
	}
}

// Guard: H2. n2 has no LUN and lives by n3 and n4, which do not see each other and report so. Together with n1 and n5,
// which see nobody, they are most of the list.
func TestHubWithoutLUN(t *testing.T) {
	for seed := range uint64(10) {
		c := New(DefaultConfig(5, seed))
		c.Run(40 * time.Second)
		c.LUNFaults(1, &Faults{Down: true})
		c.Silence()
		c.Mend(1, 2)
		c.Mend(1, 3)
		// After that n3 and n4 are reset, and n2 with them, because nobody is left to count it.
		c.Run(30 * time.Second)
		if !c.feeding(c.nodes[1]) || c.feeding(c.nodes[0]) || c.feeding(c.nodes[4]) || len(c.Violations()) > 0 {
			t.Errorf("seed %d: %v\n%s", seed, c.Violations(), c.Report())
		}
	}
}

// An agent from before holds existed writes no echo blocks: its node starves, and the others hold if they are most of
// the list.
func TestOutageWithAgentsOfBefore(t *testing.T) {
	for before, want := range map[int]int{1: 4, 2: 3, 3: 0} {
		cfg := DefaultConfig(5, uint64(before))
		cfg.Before = before
		c := New(cfg)
		c.Run(40 * time.Second)
		c.Silence()
		c.Run(time.Minute)
		if feeding := c.Feeding(); len(feeding) != want || len(c.Violations()) > 0 {
			t.Errorf("%d older agents: feeding %v, %v\n%s", before, feeding, c.Violations(), c.Report())
		}
	}
}

// A LUN with some writes that land late, are torn or fail does not end the hold.
func TestOutageWithASlowLUN(t *testing.T) {
	for seed := range uint64(10) {
		c := New(DefaultConfig(5, seed))
		c.Run(40 * time.Second)
		for i := range 5 {
			c.LUNFaults(i, &Faults{Slow: time.Second, Fail: 0.1, LateOf: 0.5, LateBy: time.Minute, TornOf: 0.3})
		}
		c.Silence()
		c.Run(3 * time.Minute)
		c.Heal()
		c.Run(20 * time.Second)
		if c.Resets() != 0 || len(c.Violations()) > 0 {
			t.Errorf("seed %d: %d resets, %v\n%s", seed, c.Resets(), c.Violations(), c.Report())
		}
	}
}

// Guard: H3, H4. A node that starves because of a decision does not feed again when the nodes that the decision names
// give it up for a majority. The exception is the heartbeat that one of them may need to report that it lives.
func TestWhoWasDecidedAgainstStaysSo(t *testing.T) {
	for seed := range uint64(20) {
		c := New(DefaultConfig(4, seed+1))
		c.Run(40 * time.Second)
		c.Silence()
		c.Run(5*time.Second + time.Duration(seed)*100*time.Millisecond)
		c.LUNFaults(2, &Faults{Down: true})
		c.Heal()
		c.Split([][]int{{0}, {1, 3}, {2}})
		for range 40 {
			if c.Run(100 * time.Millisecond); c.reasons()[0] == watchdog.ReasonSplitLost {
				break
			}
		}
		if r := c.reasons()[0]; r != watchdog.ReasonSplitLost {
			t.Fatalf("seed %d: the reason of n1 is %v, and n2 and n4 were to win", seed, r)
		}
		c.Heal()
		c.Split([][]int{{0}, {1, 2, 3}})
		fed := 0
		for range 80 {
			if c.Run(100 * time.Millisecond); slices.Contains(c.Feeding(), 0) {
				fed++
			}
		}
		if fed > 10 {
			t.Errorf("seed %d: n1 is fed for %d00 ms again:\n%s", seed, fed, c.Report())
		}
		if r := c.reasons()[1]; r != watchdog.ReasonNetworkQuorum {
			t.Errorf("seed %d: the reason of n2 is %v", seed, r)
		}
	}
}

// Guard: H4. A decision ends the bridge only while somebody lives. An equal split is decided, or is about to be, when
// an outage of all networks begins. The granted half comes apart as well, nobody lives, and all nodes ask again before
// a short watchdog fires.
func TestOutageAfterAnEqualSplit(t *testing.T) {
	for _, c := range []struct {
		watchdog, feed time.Duration
		most           int // the highest number of resets, of 240 nodes
	}{{8 * time.Second, 2 * time.Second, 10}, {10 * time.Second, time.Second, 4}, {30 * time.Second, 5 * time.Second, 4}} {
		resets := 0
		for seed := range uint64(60) {
			cfg := DefaultConfig(4, seed)
			cfg.Watchdog, cfg.Feed = c.watchdog, c.feed
			c := New(cfg)
			c.Run(30 * time.Second)
			c.Split([][]int{{0, 1}, {2, 3}})
			c.Run(time.Duration(seed) * 100 * time.Millisecond)
			c.Silence()
			c.Run(40 * time.Second)
			resets += c.Resets()
		}
		if resets > c.most {
			t.Errorf("with a watchdog of %v and feeds each %v: %d resets, want %d at most", c.watchdog, c.feed, resets, c.most)
		}
	}
}
