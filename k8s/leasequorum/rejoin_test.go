package leasequorum

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// Guard: K8. The member of the half counts a majority again, and its token has moved on. As long as that is so, this
// node continues by their grant, and renews it.
func TestGoesOnBesideAMemberThatHasAMajority(t *testing.T) {
	r := newRig(t)
	r.won()
	grant, token := r.a.held.Digest(), r.out.Token
	for i := range uint32(3 * times.Term / tick) {
		r.say(1, netgossip.Token{Nonce: 0xb2, Counter: 30 + i}, setOf(0, 1, 2, 3))
		r.step(tick)
		if r.out.Split != tie.Won || r.out.Token != token || r.out.Why == "" {
			t.Fatalf("after %d: split %d, token %v, was %v, why %q", i, r.out.Split, r.out.Token, token, r.out.Why)
		}
		if r.op == nil {
			continue
		}
		if r.op.Kind != Write || r.op.Record.Grant.Digest() != grant {
			t.Fatalf("op %+v", r.op)
		}
		r.answer(Done, r.op.Record, "of "+r.now.Sub(0).String())
	}
	r.say(1, netgossip.Token{Nonce: 0xb2, Counter: 99}, setOf(0, 1))
	r.step(0)
	if r.out.Split == tie.Won {
		t.Error("goes on although the member lost its majority")
	}
}

// Guard: K8. The statement that the member has to make.
func TestWhoseMajorityCounts(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(r *rig)
		won  bool
	}{
		"a majority with this node": {func(*rig) {}, true},
		"three of four":             {func(r *rig) { r.said[1].View = setOf(0, 1, 3) }, true},
		"without this node":         {func(r *rig) { r.said[1].View = setOf(1, 2, 3) }, false},
		"half":                      {func(r *rig) { r.said[1].View = setOf(0, 1) }, false},
		"below the quorum":          {func(r *rig) { r.in.Quorum, r.said[1].View = 4, setOf(0, 1, 3) }, false},
		"in another boot":           {func(r *rig) { r.said[1].Boot++ }, false},
		"another roster":            {func(r *rig) { r.said[1].RosterDigest++ }, false},
		"another epoch":             {func(r *rig) { r.said[1].RosterEpoch++ }, false},
		"too long ago":              {func(r *rig) { r.now = r.now.Add(times.MaxAge) }, false},
		"and this node's view is another": {func(r *rig) {
			r.in.View = setOf(0, 2)
			r.say(2, netgossip.Token{Nonce: 0xb3, Counter: 3}, setOf(0, 1, 2, 3))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.won()
			r.say(1, netgossip.Token{Nonce: 0xb2, Counter: 30}, setOf(0, 1, 2, 3))
			c.edit(r)
			if r.step(0); (r.out.Split == tie.Won) != c.won {
				t.Errorf("split %d, why %q", r.out.Split, r.out.Why)
			}
		})
	}
}

// Guard: K8. The token moves on with the view, so this is asked for twice.
func TestMajorityOfAnotherViewDoesNotCount(t *testing.T) {
	r := newRig(t)
	r.won()
	r.say(1, netgossip.Token{Nonce: 0xb2, Counter: 30}, setOf(0, 1, 2, 3))
	r.step(0)
	before, _ := r.a.bridged()
	r.a.view = setOf(0, 2)
	if after, _ := r.a.bridged(); before <= r.now || after != 0 {
		t.Errorf("until %v, with another view %v", before, after)
	}
}
