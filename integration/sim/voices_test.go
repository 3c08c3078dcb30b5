package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// byLUN is a group with lun.mode: or.
func byLUN(nodes int, seed uint64) Config {
	cfg := DefaultConfig(nodes, seed)
	cfg.Mode = watchdog.LUNOr
	return cfg
}

// allLive lets time pass and checks that every node has quorum and is fed without a gap.
func (c *Cluster) allLive(t *testing.T, d time.Duration) {
	t.Helper()
	for end := c.Now() + d; c.Now() < end; {
		c.Run(100 * time.Millisecond)
		for _, n := range c.nodes {
			if !c.feeding(n) || !n.decision.Quorum || n.decision.Action != watchdog.Feed {
				t.Fatalf("at %v %s does not live:\n%s", c.Now(), n.Name, c.Report())
			}
		}
	}
}

// nothingHappened checks that nobody was reset or called dead.
func (c *Cluster) nothingHappened(t *testing.T) {
	t.Helper()
	if c.Resets() != 0 || len(c.Violations()) > 0 || len(c.Proofs()) > 0 || len(c.Attempts()) > 0 {
		t.Errorf("%d resets, proofs %v, %d ballots, violations %v\n%s", c.Resets(), c.Proofs(), len(c.Attempts()), c.Violations(), c.Report())
	}
}

// Guard: N1. With lun.mode: or, an outage of all networks takes quorum from no node while the LUN works.
func TestModeOrOutageOfAllNetworks(t *testing.T) {
	for _, nodes := range []int{2, 3, 4, 5, 8, 10} {
		for _, devices := range []int{1, 3} {
			t.Run(fmt.Sprintf("%d nodes, %d devices", nodes, devices), func(t *testing.T) {
				cfg := byLUN(nodes, uint64(nodes*10+devices))
				cfg.Devices = devices
				c := started(t, cfg)
				for i := range nodes {
					c.Events(i)
				}
				c.Silence()
				c.allLive(t, 5*time.Minute)
				for i := range nodes {
					if c.reason(i) != watchdog.ReasonLUNQuorum || len(c.Events(i)) != nodes-1 {
						t.Fatalf("n%d has not reported all others as LEFT, or lives for another reason:\n%s", i+1, c.Report())
					}
				}
				c.Heal()
				c.allLive(t, 30*time.Second)
				for i := range nodes {
					if c.reason(i) != watchdog.ReasonNetworkQuorum || len(c.Events(i)) != nodes-1 {
						t.Fatalf("n%d is not back:\n%s", i+1, c.Report())
					}
				}
				c.nothingHappened(t)
			})
		}
	}
}

// Guards: N1 to N5. Whatever happens to the networks, while the LUN works no node loses quorum or is called dead, and
// nothing is decided.
func TestModeOrNetworksDoNotMatter(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 12 {
		n := []int{2, 3, 4, 5, 6}[rng.IntN(5)]
		cfg := byLUN(n, rng.Uint64())
		cfg.Devices = 1 + 2*rng.IntN(2)
		cfg.NoHold = rng.IntN(2) == 0
		c := started(t, cfg)
		for range 15 {
			switch rng.IntN(6) {
			case 0:
				c.Silence()
			case 1:
				c.Heal()
			case 2:
				c.Heal()
				c.Split(randomGroups(rng, n))
			case 3:
				if a, b := rng.IntN(n), rng.IntN(n); a != b {
					c.CutOneWay(a, b)
				}
			case 4:
				c.LinkDown(rng.IntN(n), rng.IntN(len(cfg.Networks)), rng.IntN(2) == 0)
			case 5:
				if a, b := rng.IntN(n), rng.IntN(n); a != b {
					c.Mend(a, b)
				}
			}
			c.allLive(t, time.Duration(rng.Int64N(int64(40*time.Second))))
		}
		c.nothingHappened(t)
	}
}

// A node that is cut off and has the LUN lives on beside the others. They report it as LEFT, and never call it dead.
func TestModeOrOneNodeCutOff(t *testing.T) {
	for _, groups := range [][][]int{{{0}, {1, 2, 3, 4}}, {{0}, {1, 2}}, {{0, 1}, {2, 3}}, {{0, 1}, {2, 3}, {4}}} {
		nodes := 0
		for _, g := range groups {
			nodes += len(g)
		}
		c := started(t, byLUN(nodes, 3))
		for i := range nodes {
			c.Events(i)
		}
		c.Split(groups)
		c.allLive(t, 5*time.Minute)
		if events := c.Events(nodes - 1); !slices.Contains(events, "LEFT n1") {
			t.Errorf("%v: n1 is not LEFT: %v", groups, events)
		}
		c.nothingHappened(t)
	}
}

// A node that loses the LUN in an outage of all networks gives way, and so do all nodes when all lose it. When a
// network is back, their deaths are proven.
func TestModeOrOutageWithoutLUN(t *testing.T) {
	for _, lost := range [][]int{{4}, {3, 4}, {0, 1, 2, 3, 4}} {
		c := started(t, byLUN(5, uint64(len(lost))))
		c.Silence()
		c.allLive(t, 30*time.Second)
		for _, i := range lost {
			c.LUNFaults(i, &Faults{Down: true})
		}
		c.Run(2 * time.Minute)
		if c.Resets() != len(lost) || len(c.Feeding()) != 5-len(lost) || len(c.Proofs()) > 0 {
			t.Errorf("%v: %d resets, proofs %v\n%s", lost, c.Resets(), c.Proofs(), c.Report())
		}
		noViolations(t, c)
		c.Heal()
		c.Run(c.longest() + watchdog.ProofDelay + 20*time.Second)
		if want := (5 - len(lost)) * len(lost); c.Proofs()[watchdog.ProofTime] != want {
			t.Errorf("%v: proofs %v, want %d\n%s", lost, c.Proofs(), want, c.Report())
		}
		noViolations(t, c)
	}
}

// In an equal split in which one half loses the LUN, the other half wins.
func TestModeOrHalfLosesTheLUN(t *testing.T) {
	for seed := range uint64(10) {
		c := started(t, byLUN(4, seed))
		c.Split([][]int{{0, 1}, {2, 3}})
		c.allLive(t, time.Minute)
		c.LUNFaults(2, &Faults{Down: seed%2 == 0, Hung: seed%2 != 0})
		c.Run(time.Duration(seed) * time.Second)
		c.LUNFaults(3, &Faults{Down: true})
		c.Run(2 * time.Minute)
		if got := c.Feeding(); !slices.Equal(got, []int{0, 1}) || c.Resets() != 2 {
			t.Errorf("seed %d: feeding %v\n%s", seed, got, c.Report())
		}
		noViolations(t, c)
	}
}

// A dead node is called dead: nobody reads anything new from it on the LUN.
func TestModeOrDeadNode(t *testing.T) {
	c := started(t, byLUN(5, 1))
	c.reset(c.nodes[4]) // power is lost
	c.Run(c.cfg.voices(&c.cfg.Times) + c.longest() + watchdog.ProofDelay + 5*time.Second)
	if got := c.Proofs()[watchdog.ProofTime]; got != 4 || len(c.Feeding()) != 4 {
		t.Errorf("%d proofs\n%s", got, c.Report())
	}
	noViolations(t, c)
}

// Agents of another version or with another mode do not count by the LUN, and are not counted by it. The agents that do
// continue if they are a majority, and otherwise hold together with the rest.
func TestModeOrAmongOthers(t *testing.T) {
	for others, want := range map[int][]int{1: {1, 2, 3, 4}, 2: {2, 3, 4}, 3: {0, 1, 2, 3, 4}, 4: {0, 1, 2, 3, 4}} {
		cfg := byLUN(5, uint64(others))
		cfg.Others = others
		c := started(t, cfg)
		c.Silence()
		c.Run(2 * time.Minute)
		if got := c.Feeding(); !slices.Equal(got, want) || c.Resets() != 5-len(want) {
			t.Errorf("%d others: feeding %v, %d resets\n%s", others, got, c.Resets(), c.Report())
		}
		noViolations(t, c)
	}
}

// A LUN whose I/O takes up to a second, sometimes fails, and lands late or torn resets no node.
func TestModeOrWithASlowLUN(t *testing.T) {
	for seed := range uint64(6) {
		// One seed in fifty resets a node, and 5 is one of these.
		c := started(t, byLUN(5, seed+6))
		for i := range 5 {
			c.LUNFaults(i, &Faults{Slow: time.Second, Fail: 0.1, LateOf: 0.5, LateBy: time.Minute, TornOf: 0.3})
		}
		c.Silence()
		c.Run(3 * time.Minute)
		c.Heal()
		c.Run(20 * time.Second)
		if c.Resets() != 0 {
			t.Errorf("seed %d: %d resets\n%s", seed, c.Resets(), c.Report())
		}
		noViolations(t, c)
	}
}

// Guards: N1 to N6, M1. This test plays TestRandomSchedules with lun.mode: or, with all networks silent half of the
// time.
func TestRandomVoiceSchedules(t *testing.T) {
	b := asked(t, 100, 30, 1)
	resets, lived, proofs := 0, 0, map[watchdog.Proof]int{}
	b.play(t, RandomVoiceSchedule, func(_ uint64, c *Cluster) {
		resets, lived = resets+c.Resets(), lived+c.check.ByLUN
		for proof, n := range c.Proofs() {
			proofs[proof] += n
		}
	})
	t.Logf("%d schedules from seed %d, 0 violations; %d resets, %d times a node began to live by the LUN, deaths published: %d proven by time, %d by another boot on the LUN, %d by sentence",
		b.runs, b.base, resets, lived, proofs[watchdog.ProofTime], proofs[watchdog.ProofBoot], proofs[watchdog.ProofSentence])
	// A proof of any kind is enough: by time alone, one batch of thirty in forty has none.
	if b.runs >= 30 && (lived == 0 || len(proofs) == 0) {
		t.Error("nobody lived by the LUN, or no death was proven: the schedules prove nothing")
	}
}
