package leasequorum

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// Guard: K3, K5, K7. The expiry is Term plus the longest horizon of this node and of those that may feed: as the Lease
// states it, else as the node itself states it, else the longest there may be.
func TestExpiryIsThatOfTheHolders(t *testing.T) {
	const own, short, long, longer = 4 * time.Second, 3 * time.Second, 8 * time.Second, 12 * time.Second
	token := func(nonce uint64) netgossip.Token { return netgossip.Token{Nonce: nonce, Counter: 5} }
	for _, c := range []struct {
		name    string
		horizon [2]time.Duration // of n3 and n4, as the Lease states it
		heard   *netgossip.Token // the token that n4 states, with a longer horizon
		nobody  bool             // no holder is named; horizon[0] is that of the record
		want    time.Duration
	}{
		{name: "shorter than this node's", horizon: [2]time.Duration{short, short}, want: own},
		{name: "longer", horizon: [2]time.Duration{long, long}, want: long},
		{name: "the first is longer", horizon: [2]time.Duration{longer, long}, want: longer},
		{name: "the last is longer", horizon: [2]time.Duration{long, longer}, want: longer},
		{name: "not stated", horizon: [2]time.Duration{long, 0}, want: times.Longest},
		{name: "not stated, told by the holder", horizon: [2]time.Duration{long, 0}, heard: &netgossip.Token{Nonce: 4, Counter: 5}, want: longer},
		{name: "not stated, told with an earlier token", horizon: [2]time.Duration{long, 0}, heard: &netgossip.Token{Nonce: 4, Counter: 4}, want: times.Longest},
		{name: "not waited for: the token has moved on", horizon: [2]time.Duration{long, longer}, heard: &netgossip.Token{Nonce: 4, Counter: 6}, want: long},
		{name: "nobody named", nobody: true, want: own},
		{name: "nobody named, stated", nobody: true, horizon: [2]time.Duration{long}, want: long},
		{name: "nobody named, told", nobody: true, heard: &netgossip.Token{Nonce: 4, Counter: 5}, want: longer},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.in = tie.Input{View: setOf(0, 1), Tie: true, TieSince: r.now, Horizon: own}
			r.step(tick)
			if c.heard != nil {
				r.say(3, *c.heard, setOf(2, 3)).Guard.Horizon = longer
			}
			rec := Record{Grant: Grant{Roster: roster.Ref{Epoch: 1, Digest: 7}, Holders: []Holder{
				{Node: "n3", Token: token(3), Horizon: c.horizon[0]}, {Node: "n4", Token: token(4), Horizon: c.horizon[1]},
			}}}
			if c.nobody {
				rec = Record{Horizon: c.horizon[0]}
			}
			r.answer(Done, rec, "1")
			expires := r.now.Add(times.Term + c.want)
			for _, step := range []struct {
				at    time.Duration
				write bool
			}{{-tick, false}, {0, true}} {
				r.now = expires.Add(step.at)
				r.say(1, token(0xb2), setOf(0, 1))
				r.step(0)
				if got := r.op != nil && r.op.Kind == Write; got != step.write {
					t.Fatalf("at %v from an expiry of %v: writes %v, why %q", step.at, times.Term+c.want, got, r.out.Why)
				}
				if r.op != nil && r.op.Kind == Read {
					r.answer(Done, rec, "1")
				}
			}
		})
	}
}

// A write states the horizon of each holder as the holder itself states it, and for a Lease that names nobody the
// longest known one.
func TestHorizonsAreWritten(t *testing.T) {
	r := newRig(t)
	r.say(2, netgossip.Token{Nonce: 3, Counter: 5}, setOf(0, 1, 2, 3)).Guard.Horizon = 9 * time.Second
	r.in.Horizon = 4 * time.Second
	r.step(tick)
	r.answer(Absent, Record{}, "")
	r.step(1)
	if r.op == nil || r.op.Kind != Create || r.op.Record.Horizon != 9*time.Second {
		t.Fatalf("a Lease is made by %+v", r.op)
	}
	r.answer(Done, r.op.Record, "1")
	r.now = r.now.Add(20 * time.Second)
	r.in = tie.Input{View: setOf(0, 1), Tie: true, TieSince: r.now, Horizon: 4 * time.Second}
	r.say(1, netgossip.Token{Nonce: 0xb2, Counter: 20}, setOf(0, 1)).Guard.Horizon = 7 * time.Second
	r.step(tick)
	if r.op == nil || r.op.Kind != Write {
		t.Fatalf("op %+v, why %q", r.op, r.out.Why)
	}
	for i, want := range []time.Duration{4 * time.Second, 7 * time.Second} {
		if h := r.op.Record.Grant.Holders[i]; h.Horizon != want {
			t.Errorf("%s: horizon %v, want %v", h.Node, h.Horizon, want)
		}
	}
}

// Guard: K7. The horizon that was written for a token is never too short.
func TestTokenMovesOnWhenTheHorizonGrows(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name    string
		horizon time.Duration
		moves   bool
	}{
		{"known", 4 * time.Second, true},
		{"the same", 4 * time.Second, false},
		{"shorter", 3 * time.Second, false},
		{"longer", 4 * time.Second, true},
		{"not known", 0, true},
		{"not known yet", 0, false},
	} {
		before := r.out.Token
		r.in.Horizon = c.horizon
		r.step(1)
		if moved := r.out.Token != before; moved != c.moves {
			t.Errorf("%s: token %v, was %v", c.name, r.out.Token, before)
		}
		r.step(2 * tick)
		if r.out.Token.IsZero() {
			t.Errorf("%s: no token comes after", c.name)
		}
	}
}
