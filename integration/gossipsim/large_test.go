package gossipsim

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// In a group that takes samples, too, a node that repeatedly stalls for 2 s does not lose anybody, and the others lose
// nobody because of it.
func TestSlowNodesOfALargerGroup(t *testing.T) {
	r := run(t, config(30, "auto", "slow", lasting(15*time.Second), func(c *Config) { c.Warmup = time.Second }))
	if r.False.Reports > 0 || r.False.AtSlow > 0 || r.False.QuorumLost > 0 {
		t.Errorf("three slow nodes of thirty: %+v", r.False)
	}
}

// A node of a large group sends no more than one of a small group, and a node or half that is cut off knows that in
// time.
func TestLargeGroup(t *testing.T) {
	nodes, bound := 60, 4*time.Second
	if !testing.Short() {
		nodes, bound = 300, 8*time.Second
	}
	brief := func(c *Config) { c.Warmup = time.Second }
	r := run(t, config(nodes, "auto", "isolate", brief, lasting(bound), seeded(3)))
	expectAll(t, "isolated node below quorum", r.BelowQuorum, 1, bound)
	expectNoneFalse(t, r)
}

// When all agents start at once, all find each other, and none sends much more than a few questions to each peer.
func TestAllStartAtOnce(t *testing.T) {
	notInMakeTest(t, 30)
	synctest.Test(t, func(t *testing.T) {
		w, r, err := simulate(config(30, "auto", "start", lasting(12*time.Second)))
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range w.obs.views {
			if v != roster.FullSet(30) {
				t.Errorf("node %d counts %d of 30 after %v", i, v.Len(), r.Measured)
			}
		}
		if p := r.Peak(); p.EvidencePackets < 50 || p.EvidencePackets > 1000 {
			t.Errorf("%.0f packets of evidence per node in the second with the most", p.EvidencePackets)
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
}

// A thousand nodes on two networks send, when idle, as much as small groups. A node that is cut off knows that, and no
// other node is disturbed. The test takes 40 s and 3 GB, in a separate process.
func TestIsolatedNodeOfTheLargestGroup(t *testing.T) {
	notInMakeTest(t, 1000)
	cfg := config(MaxNodes, "auto", "isolate", lasting(6*time.Second), func(c *Config) { c.Warmup = time.Second })
	r, err := RunProcess(t.Context(), Self(roleChild), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("below quorum %s; %v of real time, %d MB", show(r.BelowQuorum), r.Wall, r.PeakRSS>>20)
	if r.Complete != MaxNodes {
		t.Errorf("at the beginning only %d nodes reached all others", r.Complete)
	}
	expectAll(t, "isolated node below quorum", r.BelowQuorum, 1, 5*time.Second)
	expectNoneFalse(t, r)
	if idle := r.rates(r.Seconds[0], 1); idle.Bytes+idle.StreamBytes > 3000 || idle.EvidencePackets < 10 {
		t.Errorf("a node sends %+v before anything happens", idle)
	}
	if p := r.Peak(); p.Bytes+p.StreamBytes > 25e3 {
		t.Errorf("in the second with the most a node sends %+v", p)
	}
}

// An equal split of the largest group is noticed in time, and nobody floods the network because of it. The test takes
// minutes, and runs only with GOSSIPSIM_LARGE=1.
func TestEqualSplitOfTheLargestGroup(t *testing.T) {
	if os.Getenv("GOSSIPSIM_LARGE") == "" {
		t.Skip("it takes minutes: run make simulate KIND=large")
	}
	cfg := config(MaxNodes, "auto", "split", lasting(9*time.Second), func(c *Config) { c.Warmup = time.Second })
	r, err := RunProcess(t.Context(), Self(roleChild), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range r.Seconds {
		rates := r.rates(s, 1)
		t.Logf("second %d: %.0f packets and %.0f B a node, of them evidence %.0f and %.0f; %.0f B in streams",
			i+1, rates.Packets, rates.Bytes, rates.EvidencePackets, rates.EvidenceBytes, rates.StreamBytes)
	}
	t.Logf("exact view %s; %v of real time, %d MB", show(r.ExactView), r.Wall, r.PeakRSS>>20)
	expectAll(t, "view is exactly its own half", r.ExactView, MaxNodes, 8*time.Second)
	if p := r.Peak(); p.Bytes+p.StreamBytes > 100e3 || p.EvidencePackets < 100 {
		t.Errorf("in the second with the most a node sends %+v", p)
	}
}
