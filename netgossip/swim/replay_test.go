package swim_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
)

// An attacker on the wire can replay a node's packets, to any node and for ever. That must not make a dead node seem
// alive, not even in one direction.
func TestReplayedPacketsAreNoSightings(t *testing.T) {
	for name, fresh := range map[string]bool{"heard before": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3, sealed(t))
				var frames []netgossiptest.Frame
				c.net.Tap(func(f netgossiptest.Frame) {
					if f.From.Addr() == memory(1) && !f.Stream {
						frames = append(frames, f)
					}
				})
				for _, nd := range c.nodes {
					nd.start(t)
				}
				c.awaitComplete(5 * time.Second)
				n1, n2 := c.nodes[0], c.nodes[1]
				// What n2 sends while n1 cannot hear it is new to n1.
				c.net.Cut(n2.addr, n1.addr)
				<-time.After(20 * time.Second)
				c.net.Heal()
				c.awaitComplete(10 * time.Second)
				n2.stop(t, false)
				died := clock()
				if fresh {
					n1.stop(t, false)
					n1.restart(t)
				}
				to := netip.AddrPortFrom(n1.addr, testPort)
				for range 20 {
					for _, f := range frames {
						c.net.Inject(f.From, to, f.Data)
						<-time.After(20 * time.Millisecond)
					}
				}
				n1.sink.view(func() {
					late := n1.sink.lastHeard[1].Sub(died)
					t.Logf("%d packets replayed until %v after the death, the last sighting is of %v after it", len(frames), clock().Sub(died), late)
					if len(frames) < 50 || late > n1.cfg.Params.EvidenceMaxAge {
						t.Errorf("n2 was sighted %v after its death, by %d packets", late, len(frames))
					}
				})
				if n1.sink.anchor(1) > died {
					t.Error("n2 has evidence")
				}
			})
		})
	}
}
