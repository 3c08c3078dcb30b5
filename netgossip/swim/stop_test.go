package swim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
)

// The recorder fails the test when it is called after Stop. memberlist's suspicion
// timers, its probe in flight and packets that are under way all outlive the instance.
func TestNothingIsReportedAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 4, nil)
		c.awaitComplete(5 * time.Second)
		c.nodes[3].stop(t, false)
		<-time.After(1500 * time.Millisecond) // the others suspect it now
		c.net.SetAll(netgossiptest.Link{Delay: 300 * time.Millisecond})
		<-time.After(100 * time.Millisecond)
		before := 0
		n1 := c.nodes[0]
		n1.sink.view(func() { before = len(n1.sink.changes) })
		n1.stop(t, false)
		<-time.After(time.Minute)
		n1.sink.view(func() {
			if len(n1.sink.changes) != before {
				t.Errorf("changes after Stop: %v", n1.sink.changes[before:])
			}
		})
		if c.nodes[1].sink.isAlive(0) || c.nodes[1].sink.isAlive(3) {
			t.Error("n2 did not report the deaths: the test proves nothing")
		}
	})
}

func TestStopDoesNotWaitForUnreachablePeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, nil)
		for i := 1; i < 5; i++ {
			c.net.CutBoth(memory(0), memory(i)) // joining them hangs for TCPTimeout each
		}
		n1 := c.nodes[0]
		n1.start(t)
		<-time.After(500 * time.Millisecond)
		began := time.Now()
		n1.stop(t, true)
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("Stop took %v", took)
		}
	})
}

func TestStopTwiceAndWithoutStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 2, nil)
		c.nodes[0].stop(t, true)
		c.nodes[0].stop(t, true)
		c.nodes[0].Nudge()
		if c.nodes[0].Start() == nil {
			t.Error("a stopped instance was started")
		}
		if c.nodes[1].Start() == nil {
			t.Error("an instance was started twice")
		}
		c.nodes[0].restart(t) // the address is free again
		c.nodes[0].stop(t, false)
		c.nodes[0].Stats()
	})
}
