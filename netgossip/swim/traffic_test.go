package swim_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/race"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// udpHeaders is the size of the IPv4 and UDP headers of a packet, in bytes.
const udpHeaders = 28

// TestIdleTraffic measures what a node of an idle cluster sends and holds it to a
// budget. The budgets are the measured values with a little room (go test -v prints them).
func TestIdleTraffic(t *testing.T) {
	for _, c := range []struct {
		n              int
		every          time.Duration // each peer is probed
		window         time.Duration
		packets, bytes float64 // budget per node and second
	}{
		{4, time.Second, time.Minute, 13.5, 1150},
		{100, 2 * time.Second, 5 * time.Second, 125, 9300},
	} {
		t.Run(fmt.Sprintf("N=%d", c.n), func(t *testing.T) {
			if c.n > 10 && (testing.Short() || race.Detector) {
				t.Skip("100 nodes take seconds; run without -short and -race")
			}
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t, c.n, nil)
				for _, nd := range cl.nodes {
					nd.start(t)
					time.Sleep(time.Duration(rand.N(10)) * time.Millisecond)
				}
				<-time.After(20 * time.Second) // the tables and the gossip about joining settle
				before := cl.sum()
				<-time.After(c.window)
				after := cl.sum()
				per := c.window.Seconds() * float64(c.n)
				packets := float64(after.PacketsOut-before.PacketsOut) / per
				payload := float64(after.BytesOut-before.BytesOut) / per
				probes := float64(after.Probes-before.Probes) / per
				bytes := payload + packets*udpHeaders
				t.Logf("N=%d: a node sends %.1f packets/s, %.0f B/s with headers (%.0f payload); %.1f probes/s", c.n, packets, bytes, payload, probes)
				if packets > c.packets || bytes > c.bytes {
					t.Errorf("over the budget of %v packets/s and %v B/s", c.packets, c.bytes)
				}
				if least := 0.9 * float64(c.n-1) / c.every.Seconds(); probes < least {
					t.Errorf("%.1f probes/s, want %.1f: the measurement is wrong", probes, least)
				}
				if got := cl.net.Overflows(); got > 0 {
					t.Errorf("%d packets lost to full queues", got)
				}
			})
		})
	}
}

func (c *cluster) sum() (s swim.Stats) {
	for _, nd := range c.nodes {
		st := nd.Stats()
		s.PacketsOut += st.PacketsOut
		s.BytesOut += st.BytesOut
		s.Probes += st.Probes
	}
	return s
}
