package swim_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// A peer is a suspect while its answer is due, long before evidence of it has run out; a peer that answers is not.
func TestSuspectOwesAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.awaitComplete(5 * time.Second)
		n1, n2, n3 := c.nodes[0], c.nodes[1], c.nodes[2]
		for range 300 {
			<-time.After(100 * time.Millisecond)
			if s := n1.Suspects(); len(s) > 0 {
				t.Fatalf("all answer, and %q are suspects", s)
			}
		}
		c.net.Cut(n1.addr, n2.addr)
		p := n1.cfg.Params
		c.await(2*p.EvidenceInterval, "n2 is a suspect to n1", func() bool { return slices.Equal(n1.Suspects(), []string{"n002"}) })
		if s := n3.Suspects(); len(s) > 0 {
			t.Errorf("n3 reaches all, and %q are suspects to it", s)
		}
		c.net.Heal()
		c.await(2*p.EvidenceInterval, "nobody is a suspect", func() bool { return len(n1.Suspects()) == 0 })
	})
}

// A node whose probes fail doubts its own health until they are answered. If the parameters leave Lifeguard no room, it
// never does.
func TestHealthScore(t *testing.T) {
	for name, off := range map[string]bool{"Lifeguard": false, "without Lifeguard": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t, 5, func(cfg *swim.Config) {
					if off {
						cfg.Params.AwarenessMaxMultiplier, cfg.Params.SuspicionMaxTimeoutMult = 1, 1
					}
				})
				c.awaitComplete(5 * time.Second)
				n1 := c.nodes[0]
				for _, nd := range c.nodes[1:] {
					c.net.Cut(n1.addr, nd.addr)
					c.net.Cut(nd.addr, n1.addr)
				}
				worst := 0
				for range 100 {
					<-time.After(100 * time.Millisecond)
					worst = max(worst, n1.Stats().Health)
				}
				if shown := n1.metric(t, "fencing_agent_network_health_score", "network", "mgmt"); (worst > 0) == off || shown != float64(n1.Stats().Health) {
					t.Errorf("the score of a node that is cut off went up to %d; the metric shows %v", worst, shown)
				}
				c.net.Heal()
				c.await(2*time.Minute, "n1 is well again", func() bool { return n1.Stats().Health == 0 })
			})
		})
	}
}
