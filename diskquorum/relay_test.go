package diskquorum

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// grantedPair returns a rig of four whose nodes 0 and 1 feed under a grant; nodes 2 and 3 know it.
func grantedPair(t *testing.T) *rig {
	t.Helper()
	r := startedRig(t, 4)
	r.settle([]int{0, 1}, []int{2, 3})
	r.hold(boottime.Never)
	r.nodes[0].arb.retryAt = 0
	r.run(5 * time.Second)
	r.hold(0)
	r.wants(t, tie.Won, tie.Won, tie.Lost, tie.Lost)
	return r
}

func (r *rig) wants(t *testing.T, want ...tie.State) {
	t.Helper()
	for i, s := range want {
		if n := r.nodes[i]; n.out.Split != s {
			t.Fatalf("n%d: %v (%s), want %v", i, n.out.Split, n.out.Why, s)
		}
	}
}

// A granted half lives as long as one of its members writes the LUN, even if the others have lost their paths. The
// other half, which sees that a holder's slot does not change, waits.
func TestHalfLivesByTheWritesOfOneHolder(t *testing.T) {
	for holder := range 2 {
		r := grantedPair(t)
		r.hang(holder, 0)
		r.run(time.Minute)
		r.wants(t, tie.Won, tie.Won, tie.Lost, tie.Lost)
		if n := r.nodes[holder]; !n.out.Relayed || n.out.Healthy || r.nodes[1-holder].out.Relayed {
			t.Errorf("n%d: relayed %v, healthy %v; the other relayed %v", holder, n.out.Relayed, n.out.Healthy, r.nodes[1-holder].out.Relayed)
		}
		if r.oracle.relayed == 0 {
			t.Error("the oracle saw no step that needed a relay")
		}
		r.hang(1-holder, 0)
		r.run(r.timing.Grant + r.timing.Heartbeat)
		for i := range 2 {
			if r.nodes[i].out.Split == tie.Won {
				t.Errorf("n%d feeds although nobody of its half has written for G", i)
			}
		}
		r.run(r.timing.Expire + rigWatchdog + 5*time.Second)
		if r.nodes[2].out.Split != tie.Won || r.nodes[3].out.Split != tie.Won || r.nodes[0].out.Split == tie.Won || r.nodes[1].out.Split == tie.Won {
			t.Errorf("n0 %v, n1 %v, n2 %v, n3 %v", r.nodes[0].out.Split, r.nodes[1].out.Split, r.nodes[2].out.Split, r.nodes[3].out.Split)
		}
	}
}

// A holder whose path comes back goes on by its own writes, with the same grant.
func TestHolderGoesBackToItsOwnWrites(t *testing.T) {
	r := grantedPair(t)
	token := r.nodes[0].out.Token
	r.hang(0, 0)
	r.run(20 * time.Second)
	r.hang(0)
	r.run(3 * time.Second)
	r.wants(t, tie.Won, tie.Won, tie.Lost, tie.Lost)
	if n := r.nodes[0]; n.out.Relayed || !n.out.Healthy || n.out.Token != token {
		t.Errorf("relayed %v, healthy %v, token %v, was %v", n.out.Relayed, n.out.Healthy, n.out.Token, token)
	}
}

// Guard: L7. A node only reports its own writes: two nodes that repeat each other's reports would feed for ever
// (counterexample 20).
func TestRelayIsNotPassedOn(t *testing.T) {
	r := grantedPair(t)
	r.hang(0, 0)
	r.run(time.Minute)
	r.wants(t, tie.Won, tie.Won)
	n := r.nodes[0]
	if n.out.Relay.Anchor != n.arb.anchor || n.arb.relayed <= n.arb.anchor {
		t.Errorf("tells of %v; its own write is of %v, what it was told of %v", n.out.Relay.Anchor, n.arb.anchor, n.arb.relayed)
	}
	if other := r.nodes[1].out.Relay; other.Instance != 1 || other.Log == 0 || r.now.Sub(other.Anchor) > 2*r.timing.Heartbeat {
		t.Errorf("the holder that writes tells %+v at %v", other, r.now)
	}
	if silent := r.nodes[2].out.Relay; silent != (netgossip.Relay{}) {
		t.Errorf("a node that is not granted tells %+v", silent)
	}
}

// Guard: L7. A report counts only from a holder with the named token and the granted view, about the decision that this
// node has read, in the log of this LUN, with no later value accepted.
func TestWhoseRelayCounts(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *rig, n *rigNode)
		counts bool
	}{
		{"of a holder", func(*rig, *rigNode) {}, true},
		{"nothing told", func(_ *rig, n *rigNode) { n.heard[1].relay = netgossip.Relay{} }, false},
		{"of another log", func(_ *rig, n *rigNode) { n.heard[1].relay.Log++ }, false},
		{"of a later decision", func(_ *rig, n *rigNode) { n.heard[1].relay.Instance++ }, false},
		{"of an earlier decision", func(_ *rig, n *rigNode) { n.heard[1].relay.Instance-- }, false},
		{"with another token", func(_ *rig, n *rigNode) { n.said1().Token.Counter++ }, false},
		{"with another view", func(_ *rig, n *rigNode) { n.said1().View.Add(2) }, false},
		{"with another roster", func(_ *rig, n *rigNode) { n.said1().RosterEpoch++ }, false},
		{"of a node outside the grant", func(_ *rig, n *rigNode) {
			n.heard[2].relay, n.heard[1].relay = n.heard[1].relay, netgossip.Relay{}
		}, false},
		{"while a later value is accepted", func(_ *rig, n *rigNode) { n.arb.lease.pending = true }, false},
		{"outside a tie", func(_ *rig, n *rigNode) { n.tie = false }, false},
		{"when this node's token has moved on", func(_ *rig, n *rigNode) { n.arb.moveToken() }, false},
		{"of a write as old as G", func(r *rig, n *rigNode) { n.heard[1].relay.Anchor = r.now.Add(-r.timing.Grant) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := grantedPair(t)
			n := r.nodes[0]
			r.hang(0, 0)
			r.run(r.timing.Grant - r.timing.Heartbeat) // its own last write is still valid for a moment
			if n.out.Split != tie.Won || n.arb.silent {
				t.Fatalf("%v, silent %v", n.out.Split, n.arb.silent)
			}
			own := n.arb.anchor
			// Not granted yet, as far as it knows: a holder that renounces forgets all reports anyway.
			n.arb.relayed, n.arb.granted, n.tie = 0, false, true
			st := *n.heard[1].statement
			n.heard[1].statement, n.heard[1].at = &st, r.now
			c.change(r, n)
			in := &Input{Input: tie.Input{View: n.view, Tie: n.tie, TieSince: n.tieSince}, Own: n.statement()}
			out := n.arb.Step(r.now, in)
			worth := n.arb.relayed.Add(r.timing.Grant) > r.now
			if feeds := out.Until > own.Add(r.timing.Grant); worth != c.counts || feeds != c.counts {
				t.Errorf("told of %v at %v, feeds until %v by its write of %v; counts %v", n.arb.relayed, r.now, out.Until, own, c.counts)
			}
		})
	}
}

func (n *rigNode) said1() *netgossip.Statement { return n.heard[1].statement }

// Guard: L1. A relay that comes after G does not restore a token, however recent the reported write is: in between the
// others may have taken this node for expired.
func TestRelayDoesNotBridgeAGap(t *testing.T) {
	r := grantedPair(t)
	n := r.nodes[0]
	token := n.out.Token
	r.hang(0, 0)
	r.run(r.timing.Grant / 2)
	r.now = r.now.Add(r.timing.Grant) // node 0 is paused; node 1 is not
	for range 20 {
		r.step(1)
		if n1 := r.nodes[1]; n1.ios[0] != nil {
			r.complete(1)
		}
		r.now = r.now.Add(200 * time.Millisecond)
	}
	n.heard[1].at = r.now
	n.heard[1].relay.Anchor = r.now
	if r.step(0); n.out.Split == tie.Won || n.out.Token == token {
		t.Errorf("%v with token %v, was %v", n.out.Split, n.out.Token, token)
	}
}

// Guard: L1. Reports for one token do not count for the next one.
func TestRelayEndsWithTheToken(t *testing.T) {
	r := grantedPair(t)
	n := r.nodes[0]
	r.hang(0, 0)
	r.run(3 * time.Second)
	if n.arb.relayed == 0 {
		t.Fatal("nothing was told")
	}
	r.setView(0, 0)
	if r.step(0); n.arb.relayed != 0 {
		t.Errorf("token %v keeps %v", n.out.Token, n.arb.relayed)
	}
}

// The log of a set of devices has one identity, no matter on which of them a node has read it.
func TestLogIDOfASet(t *testing.T) {
	r := newSetRig(2, 3, rigTiming())
	for d, sb := range r.sbs {
		sb.ID[0] = byte(d) // as random ids differ
	}
	want := LogID(r.sbs)
	r.sbs[0] = nil
	if got := LogID(r.sbs); got != want || want == 0 {
		t.Errorf("log %x without the first device, %x with it", got, want)
	}
	other := *newRig(2, rigTiming()).sb
	other.ID[0]++
	if a, b := LogID([]*Superblock{newRig(2, rigTiming()).sb}), LogID([]*Superblock{&other}); a == b {
		t.Errorf("two LUNs have log %x", a)
	}
}
