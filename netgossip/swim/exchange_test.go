package swim_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// Guard: a reply that says "unchanged" stands for the peer's statement at that moment. If it stood for the statement at
// the previous probe, a peer's old view would be renewed.
func TestKnownStatementIsConfirmedAndAChangedOneTravels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 2, nil)
		c.awaitComplete(5 * time.Second)
		a, b := c.nodes[0], c.nodes[1]
		first := a.sink.latest(1)
		from := clock()
		c.await(5*time.Second, "another answer", func() bool { return a.sink.anchor(1) > from })
		if a.sink.latest(1) != first {
			t.Error("a statement that did not change was sent again")
		}
		for counter := uint32(2); counter < 6; counter++ {
			b.say(counter) // without a nudge, so that n1 asks by its own schedule
			from := clock()
			c.await(5*time.Second, "an answer from after the change", func() bool { return a.sink.anchor(1) > from })
			if got := a.sink.latest(1); got.Token.Counter != counter {
				t.Fatalf("an answer from after change %d brought statement %d", counter, got.Token.Counter)
			}
		}
	})
}

// Two rosters number their members differently, so their nodes must fall back to names, and
// then still tell each other which roster they have.
func TestNodesOfDifferentRostersTalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.awaitComplete(5 * time.Second)
		n1, n2 := c.nodes[0], c.nodes[1]
		n2.stop(t, false)
		larger := testRoster(t, 5, 1, memory)
		larger.Epoch = 2
		n2.cfg.Roster = larger
		n2.say(9)
		n2.restart(t)
		from := clock()
		c.await(3*time.Second, "n1 learns n2's roster and n2 has evidence of n1", func() bool {
			return n1.sink.latest(1).RosterDigest == larger.Digest && n2.sink.anchor(0) > from
		})
		if n2.refused(t, "roster") == 0 {
			t.Error("n1 never used its number: the test proves nothing")
		}
		before := n2.refused(t, "roster")
		from = clock()
		c.await(5*time.Second, "more evidence of both", func() bool {
			return n1.sink.anchor(1) > from.Add(2*time.Second) && n2.sink.anchor(0) > from.Add(2*time.Second)
		})
		if got := n2.refused(t, "roster"); got != before {
			t.Errorf("n1 used its number %v times more although it knows better", got-before)
		}
	})
}

// Guard: lease.md L7. A node's relay about the LUN comes with every answer, even one without a statement, and the write
// never looks younger to its peers than it is, however slow the network is.
func TestRelayTravelsWithItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Pointer[netgossip.Relay]
		c := startCluster(t, 2, func(cfg *swim.Config) {
			cfg.Relay = func() netgossip.Relay {
				if r := told.Load(); r != nil && cfg.Roster.Self == 1 {
					return *r
				}
				return netgossip.Relay{}
			}
		})
		c.awaitComplete(5 * time.Second)
		n1 := c.nodes[0].sink
		if r := n1.last(1).Relay; r != (netgossip.Relay{}) {
			t.Errorf("n1 takes %+v from a peer that tells nothing", r)
		}
		for _, oneWay := range []time.Duration{100 * time.Microsecond, 80 * time.Millisecond} {
			c.net.SetAll(netgossiptest.Link{Delay: oneWay})
			told.Store(&netgossip.Relay{Log: 5, Instance: 7, Anchor: clock().Add(-700*time.Millisecond - 1)})
			from := clock()
			c.await(5*time.Second, "an answer from after that", func() bool { return n1.anchor(1) > from })
			a := n1.last(1)
			off := told.Load().Anchor.Sub(a.Relay.Anchor)
			if a.Relay.Log != 5 || a.Relay.Instance != 7 || off < oneWay || off > oneWay+2*time.Millisecond {
				t.Errorf("one way %v: told %+v, heard %+v", oneWay, *told.Load(), a.Relay)
			}
		}
		told.Store(nil)
		from := clock()
		c.await(5*time.Second, "an answer from after that", func() bool { return n1.anchor(1) > from })
		if r := n1.last(1).Relay; r != (netgossip.Relay{}) {
			t.Errorf("n1 takes %+v from a peer that tells nothing any more", r)
		}
	})
}
