package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

func inMode(t *testing.T, nodes int, seed uint64, mode watchdog.LUNMode) *Cluster {
	t.Helper()
	cfg := DefaultConfig(nodes, seed)
	cfg.Mode = mode
	return started(t, cfg)
}

// A node that alone lost the LUN stops in mode `and`, and in no other mode; the rest continue.
func TestLosingTheLUNAlone(t *testing.T) {
	for mode, stops := range map[watchdog.LUNMode]bool{watchdog.LUNTieBreaker: false, watchdog.LUNOr: false, watchdog.LUNAnd: true} {
		for _, f := range []Faults{{Down: true}, {Hung: true}} {
			c := inMode(t, 4, 1, mode)
			c.LUNFaults(2, &f)
			c.Run(40 * time.Second)
			want := []int{0, 1, 2, 3}
			if stops {
				want = []int{0, 1, 3}
			}
			if !slices.Equal(c.Feeding(), want) || stops != (c.reason(2) == watchdog.ReasonLUNLost) {
				t.Errorf("mode %d, hung %v: feeding %v\n%s", mode, f.Hung, c.Feeding(), c.Report())
			}
			noViolations(t, c)
		}
	}
}

// Guard: an outage of the LUN fences nobody while the networks work, in whatever order the nodes lose the LUN. At the
// end none has it.
func TestCommonOutageFencesNobody(t *testing.T) {
	for seed := range uint64(10) {
		c := inMode(t, 3+int(seed%4), seed, watchdog.LUNAnd)
		for _, i := range c.rng.Perm(len(c.nodes)) {
			f := Faults{Down: c.rng.IntN(2) == 0}
			f.Hung = !f.Down
			c.LUNFaults(i, &f)
			c.Run(time.Duration(c.rng.Int64N(int64(2 * time.Second))))
		}
		for range 60 {
			c.Run(time.Second)
			if len(c.Feeding()) != len(c.nodes) {
				t.Fatalf("seed %d: feeding %v\n%s", seed, c.Feeding(), c.Report())
			}
		}
		noViolations(t, c)
	}
}

// However many nodes lose the LUN, and whenever they do, those that continue are a quorum.
func TestModeAndLeavesAQuorum(t *testing.T) {
	for seed := range uint64(12) {
		c := inMode(t, 5, seed, watchdog.LUNAnd)
		lost := c.rng.Perm(5)[:1+c.rng.IntN(5)]
		for _, i := range lost {
			c.LUNFaults(i, &Faults{Down: true})
			c.Run(time.Duration(c.rng.Int64N(int64(20 * time.Second))))
		}
		c.Run(90 * time.Second)
		feeding := c.Feeding()
		if len(feeding) < 3 || len(lost) < 3 && len(feeding) != 5-len(lost) {
			t.Errorf("seed %d: lost by %v, feeding %v\n%s", seed, lost, feeding, c.Report())
		}
		noViolations(t, c)
	}
}

// A short outage of the LUN stops no node, in any mode.
func TestModeAndSurvivesABlink(t *testing.T) {
	c := inMode(t, 3, 5, watchdog.LUNAnd)
	for range 5 {
		c.LUNFaults(0, &Faults{Hung: true})
		c.Run(c.cfg.Timing.IOTimeout + 2*time.Second)
		if len(c.Feeding()) != 3 {
			t.Fatalf("feeding %v\n%s", c.Feeding(), c.Report())
		}
		c.LUNFaults(0, nil)
		c.Run(5 * time.Second)
	}
	if len(c.Feeding()) != 3 || c.Resets() != 0 {
		t.Errorf("feeding %v, %d resets", c.Feeding(), c.Resets())
	}
}

// A node that is cut off and reads on the LUN that the others live without it reports that, and does not hold.
func TestIsolatedNodeKnowsIt(t *testing.T) {
	for _, mode := range []watchdog.LUNMode{watchdog.LUNTieBreaker, watchdog.LUNAnd} {
		c := inMode(t, 4, uint64(mode), mode)
		c.Split([][]int{{0}, {1, 2, 3}})
		mustRun(t, c, "n1 knows that it is isolated", 12*time.Second, func() bool { return c.reason(0) == watchdog.ReasonIsolated })
		if c.feeding(c.nodes[0]) || len(c.Feeding()) != 3 {
			t.Errorf("mode %d: feeding %v\n%s", mode, c.Feeding(), c.Report())
		}
		noViolations(t, c)
	}
}

// Two nodes that do not count each other on the LUN are in an equal split, and neither stops because of that.
func TestTwoNodesAreNotIsolatedByEachOther(t *testing.T) {
	c := inMode(t, 2, 3, watchdog.LUNAnd)
	c.Split([][]int{{0}, {1}})
	mustRun(t, c, "one half feeds", 20*time.Second, func() bool { return len(c.Feeding()) == 1 })
	c.Run(time.Minute)
	if len(c.Feeding()) != 1 {
		t.Errorf("feeding %v\n%s", c.Feeding(), c.Report())
	}
	noViolations(t, c)
}
