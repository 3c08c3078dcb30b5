package swim_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// Guard: a reply that says "unchanged" stands for the statement that the peer makes at that
// moment. If it were the one of the probe before, a peer's old view would be renewed.
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
			b.say(counter) // without a nudge, so that n1 asks in its own time
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
