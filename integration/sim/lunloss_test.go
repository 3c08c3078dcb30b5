package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

func losing(t *testing.T, nodes int, seed uint64, on bool) *Cluster {
	t.Helper()
	cfg := DefaultConfig(nodes, seed)
	cfg.Mode = watchdog.LUNAnd
	cfg.Sentence.LUNLoss = on
	return started(t, cfg)
}

// A node that alone has lost the LUN condemns itself if so configured. The others report FENCED because of its
// sentence, which the networks carry.
func TestLosingTheLUNAloneIsTold(t *testing.T) {
	for seed := range uint64(4) {
		c := losing(t, 3+int(seed), seed, true)
		began := c.now
		c.LUNFaults(0, &Faults{Down: seed%2 == 0, Hung: seed%2 == 1})
		mustRun(t, c, "n1 is FENCED", time.Minute, func() bool { return c.nodes[1].core.Deaths().Fenced().Has(0) })
		t.Logf("%d nodes: FENCED after %v", len(c.nodes), c.now.Sub(began))
		if c.Sentences() != 1 || c.nodes[1].core.Deaths().Of(0).Proof != watchdog.ProofSentence {
			t.Errorf("seed %d: %d sentences, %+v\n%s", seed, c.Sentences(), c.nodes[1].core.Deaths().Of(0), c.Report())
		}
		if slices.Contains(c.Feeding(), 0) || len(c.Feeding()) != len(c.nodes)-1 {
			t.Errorf("seed %d: feeding %v", seed, c.Feeding())
		}
		noViolations(t, c)
	}
}

// This must be configured: by default the loss of the LUN condemns nobody.
func TestLosingTheLUNAloneCondemnsNobodyByDefault(t *testing.T) {
	c := losing(t, 4, 1, false)
	c.LUNFaults(0, &Faults{Down: true})
	c.Run(30 * time.Second)
	if c.Sentences() != 0 || c.reason(0) != watchdog.ReasonLUNLost {
		t.Errorf("%d sentences, %v", c.Sentences(), c.reason(0))
	}
}

// Guard: P1 (E3). An outage of the LUN for all condemns nobody, in whatever order the nodes notice it. If only some
// lose the LUN, a quorum continues, whichever they are and whenever they lose it.
func TestLosingTheLUNTogetherCondemnsNobody(t *testing.T) {
	for seed := range uint64(6) {
		c := losing(t, 3+int(seed%4), seed, true)
		for _, i := range c.rng.Perm(len(c.nodes)) {
			f := Faults{Down: c.rng.IntN(2) == 0}
			f.Hung = !f.Down
			c.LUNFaults(i, &f)
			c.Run(time.Duration(c.rng.Int64N(int64(2 * time.Second))))
		}
		c.Run(40 * time.Second)
		if c.Sentences() != 0 || len(c.Feeding()) != len(c.nodes) {
			t.Errorf("seed %d: %d sentences, feeding %v\n%s", seed, c.Sentences(), c.Feeding(), c.Report())
		}
		noViolations(t, c)
	}
	for seed := range uint64(6) {
		c := losing(t, 5, seed, true)
		lost := c.rng.Perm(5)[:1+c.rng.IntN(5)]
		for _, i := range lost {
			c.LUNFaults(i, &Faults{Down: true})
			c.Run(time.Duration(c.rng.Int64N(int64(20 * time.Second))))
		}
		c.Run(60 * time.Second)
		if len(c.Feeding()) < 3 {
			t.Errorf("seed %d: lost by %v, feeding %v\n%s", seed, lost, c.Feeding(), c.Report())
		}
		noViolations(t, c)
	}
}
