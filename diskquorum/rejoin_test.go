package diskquorum

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// risen returns a granted pair whose node 0 sees all nodes again, while node 1 does not: the network heals in pieces.
func risen(t *testing.T) *rig {
	t.Helper()
	r := grantedPair(t)
	r.setView(0, 0, 1, 2, 3)
	r.setView(2, 0, 2, 3)
	r.setView(3, 0, 2, 3)
	return r
}

// Guard: L14. A holder whose partner counts a majority that includes the holder goes on, under the grant and with its
// token, for as long as that lasts; and no other half gets a grant in that time.
func TestHolderGoesOnBesideAPartnerThatHasAMajority(t *testing.T) {
	r := risen(t)
	token := r.nodes[1].out.Token
	for range 60 {
		r.run(time.Second)
		if n := r.nodes[1]; n.out.Split != tie.Won || n.out.Token != token {
			t.Fatalf("n1: %v (%s), token %v, was %v", n.out.Split, n.out.Why, n.out.Token, token)
		}
	}
	if r.nodes[0].out.Token == r.nodes[0].arb.lease.grant.Holders[0].Token {
		t.Error("n0 has not given the grant up")
	}
	if w := r.nodes[1].out.Why; w == "" {
		t.Error("n1 does not say by whom it lives")
	}
	if len(r.oracle.decided) != 1 {
		t.Errorf("%d decisions", len(r.oracle.decided))
	}
	// The other half is cut off again. As long as n1 has not heard that n0 lost the majority, n1 is a holder that may
	// feed, so there is no new grant.
	r.setView(2, 2, 3)
	r.setView(3, 2, 3)
	r.run(10 * time.Second)
	if len(r.oracle.decided) != 1 || r.nodes[1].out.Split != tie.Won {
		t.Errorf("%d decisions, n1 %v", len(r.oracle.decided), r.nodes[1].out.Split)
	}
	r.setView(0, 0, 1)
	r.run(100 * time.Millisecond)
	if n := r.nodes[1]; n.out.Split == tie.Won || n.out.Token == token {
		t.Errorf("n1 %v with token %v, was %v", n.out.Split, n.out.Token, token)
	}
	r.run(10 * time.Second)
	if a, b := r.nodes[1].out.Split, r.nodes[3].out.Split; len(r.oracle.decided) != 2 || (a == tie.Won) == (b == tie.Won) {
		t.Errorf("n1 %v, n3 %v, %d decisions", a, b, len(r.oracle.decided))
	}
}

// Guard: L14. These are the conditions on the partner's statement, and on this node.
func TestWhoseMajorityCounts(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *rig, said *netgossip.Statement)
		won    bool
	}{
		{"a majority with this node", func(*rig, *netgossip.Statement) {}, true},
		{"three of four", func(_ *rig, s *netgossip.Statement) { s.View = roster.SetOf(0, 1, 2) }, true},
		{"another half", func(_ *rig, s *netgossip.Statement) { s.View = roster.SetOf(0, 1) }, false},
		{"a majority without this node", func(_ *rig, s *netgossip.Statement) { s.View = roster.SetOf(0, 2, 3) }, false},
		{"in another boot", func(_ *rig, s *netgossip.Statement) { s.Boot++ }, false},
		{"of another roster", func(_ *rig, s *netgossip.Statement) { s.RosterEpoch++ }, false},
		{"not as many as the configured quorum", func(r *rig, s *netgossip.Statement) {
			r.nodes[1].quorum, s.View = 4, roster.SetOf(0, 1, 2)
		}, false},
		{"as old as G", func(r *rig, _ *netgossip.Statement) { r.nodes[1].heard[0].at = r.now.Add(-r.timing.Grant) }, false},
		{"which this node does not count", func(r *rig, _ *netgossip.Statement) { r.setView(1, 1, 2) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := risen(t)
			r.run(time.Second)
			n := r.nodes[1]
			c.change(r, n.heard[0].statement)
			if r.step(1); (n.out.Split == tie.Won) != c.won {
				t.Errorf("n1: %v (%s)", n.out.Split, n.out.Why)
			}
		})
	}
}

// Guard: L14. The token changes with the view, so this is checked twice.
func TestMajorityOfAnotherViewDoesNotCount(t *testing.T) {
	r := risen(t)
	r.run(time.Second)
	a := r.nodes[1].arb
	h := a.lease.grant.Holders[0]
	if a.rejoined(h, roster.SetOf(0, 1)).IsZero() || !a.rejoined(h, roster.SetOf(1, 2)).IsZero() {
		t.Error("n0 counts in a view without it, or not in the one with it")
	}
}

// Guard: L14, L7. A partner that has given the grant up vouches for no write: otherwise a node that cannot write the
// LUN itself would feed although the others take it for expired, and another half gets a grant.
func TestHolderBesideAMajorityNeedsItsOwnWrites(t *testing.T) {
	r := risen(t)
	r.run(time.Second)
	r.hang(1, 0)
	r.run(r.timing.Grant + r.timing.Heartbeat)
	if n := r.nodes[1]; n.out.Split == tie.Won {
		t.Errorf("n1 feeds although it has not written for G")
	}
}
