package swim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// With samples, a statement spreads at random. A node that asks gets the statement of each peer at once.
func TestWhoAsksHasTheStatementsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 12
		c := startCluster(t, n, nil)
		c.awaitComplete(5 * time.Second)
		for _, nd := range c.nodes {
			nd.SetDemand(netgossip.Demand{Others: n - 1, Margin: 5, Share: 2})
		}
		c.await(20*time.Second, "samples are taken", func() bool { return c.nodes[0].Stats().Mode == "sampled" })
		for counter := uint32(2); counter < 5; counter++ {
			<-time.After(3 * time.Second)
			for _, nd := range c.nodes {
				nd.say(counter)
			}
			c.nodes[0].Ask(roster.FullSet(n))
			c.await(150*time.Millisecond, "the statements of all are here", func() bool {
				for _, nd := range c.nodes[1:] {
					if st := c.nodes[0].sink.latest(nd.index); st.Token.Counter != counter {
						return false
					}
				}
				return true
			})
		}
	})
}
