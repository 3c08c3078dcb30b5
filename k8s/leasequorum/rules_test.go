package leasequorum

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// rig is one arbiter, that of n1 of four nodes, whose members state what the test sets.
type rig struct {
	t     *testing.T
	now   boottime.Instant
	a     *Arbiter
	said  map[int]*netgossip.Statement
	at    map[int]boottime.Instant
	relay map[int]netgossip.Relay
	in    tie.Input
	out   tie.Output
	op    *Op // under way
}

func (r *rig) Statement(peer int) (*netgossip.Statement, boottime.Instant) {
	return r.said[peer], r.at[peer]
}

func (r *rig) Relay(peer int) netgossip.Relay {
	if relay, ok := r.relay[peer]; ok {
		return relay
	}
	return netgossip.Relay{Log: 9, Instance: noGrant}
}

func setOf(members ...int) (s roster.Set) {
	for _, m := range members {
		s.Add(m)
	}
	return s
}

const ownBoot = 0xb1

// brief is a horizon that needs no extra wait: Expire covers it.
var brief = times.Expire - times.Term

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		t: t, now: boottime.Instant(time.Hour), said: map[int]*netgossip.Statement{}, at: map[int]boottime.Instant{}, relay: map[int]netgossip.Relay{},
		in: tie.Input{View: setOf(0, 1, 2, 3)},
	}
	list := &roster.Roster{Epoch: 1, Digest: 7, Members: []roster.Member{{Name: "n1"}, {Name: "n2"}, {Name: "n3"}, {Name: "n4"}}}
	a, err := New(Config{Roster: list, Evidence: r, Boot: ownBoot, Process: 5, Log: 9, Timing: times}, r.now)
	if err != nil {
		t.Fatal(err)
	}
	r.a = a
	r.step(tick)
	return r
}

func (r *rig) step(after time.Duration) {
	r.now = r.now.Add(after)
	r.out = *r.a.Step(r.now, &r.in)
	if op := r.a.Op(); op != nil {
		r.op = op
	}
}

// say makes a member state a token and a view at the present moment.
func (r *rig) say(peer int, token netgossip.Token, view roster.Set) *netgossip.Statement {
	r.said[peer] = &netgossip.Statement{Boot: token.Nonce, RosterEpoch: 1, RosterDigest: 7, Token: token, View: view}
	r.at[peer] = r.now
	return r.said[peer]
}

// answer ends the operation under way.
func (r *rig) answer(o Outcome, rec Record, version string) {
	r.t.Helper()
	if r.op == nil {
		r.t.Fatal("there is no operation to answer")
	}
	r.a.Complete(&Completion{ID: r.op.ID, Started: r.now, Ended: r.now, Outcome: o, Record: rec, Version: Version{"u", version}})
	r.op = nil
}

// split makes the half of n1 and n2, settled and with a token each.
func (r *rig) split() {
	r.in = tie.Input{View: setOf(0, 1), Tie: true, TieSince: r.now}
	r.say(1, netgossip.Token{Nonce: 0xb2, Counter: 20}, setOf(0, 1))
	r.step(tick)
}

// won runs the rig until its half has the grant.
func (r *rig) won() {
	r.t.Helper()
	r.answer(Done, Record{}, "1")
	r.step(times.Expire)
	r.split()
	if r.op == nil || r.op.Kind != Write || r.op.Base.Resource != "1" {
		r.t.Fatalf("settled half with a free Lease: op %+v, why %q", r.op, r.out.Why)
	}
	r.answer(Done, r.op.Record, "2")
	r.step(0)
	if r.out.Split != tie.Won {
		r.t.Fatalf("after the write: split %d, why %q", r.out.Split, r.out.Why)
	}
}

func TestTimesAreRefused(t *testing.T) {
	bad := times
	bad.Expire = bad.Term
	if _, err := New(Config{Roster: &roster.Roster{}, Boot: 1, Log: 1, Timing: bad}, 0); err == nil {
		t.Error("an expiry as long as the term is accepted")
	}
}

// A token is never one that was shown before: not with another view, nor by an agent that was started again within the
// same tick.
func TestTokenMovesOn(t *testing.T) {
	r := newRig(t)
	first := r.out.Token
	r.in.View = setOf(0, 1)
	r.step(1)
	if !r.out.Token.IsZero() {
		t.Fatalf("within the tick of %v another view has token %v", first, r.out.Token)
	}
	r.step(tick)
	if got := r.out.Token; got.IsZero() || got.Counter <= first.Counter || got.Nonce != ownBoot {
		t.Fatalf("token %v after %v", got, first)
	}
	again, err := New(r.a.cfg, r.now)
	if err != nil {
		t.Fatal(err)
	}
	if out := again.Step(r.now, &r.in); !out.Token.IsZero() {
		t.Fatalf("an agent started in the tick of %v shows %v", r.out.Token, out.Token)
	}
	r.in.Stop = true
	if r.step(tick); r.out.Token.IsZero() {
		t.Error("a planned stop ends the token while the node is fed")
	}
	r.in.Released = true
	r.step(tick)
	if !r.out.Token.IsZero() {
		t.Error("a token is kept while stopping")
	}
}

// A grant counts as long as the member is heard, and never longer than its term (K2).
func TestGrantIsBounded(t *testing.T) {
	r := newRig(t)
	r.won()
	if want := r.at[1].Add(times.MaxAge); r.out.Until != want {
		t.Errorf("until %v, not %v: the member may be gone", r.out.Until, want)
	}
	written := r.now
	for r.now < written.Add(times.Term-2*tick) {
		r.say(1, r.said[1].Token, setOf(0, 1))
		r.step(tick)
		if op := r.op; op != nil {
			if op.Kind != Write || op.Record.Grant.Digest() != r.a.digest || r.now < written.Add(times.Term/4) {
				t.Fatalf("at %v after the write: %+v", r.now.Sub(written), op)
			}
			break
		}
	}
	if r.op == nil {
		t.Fatal("the grant is not renewed")
	}
	r.say(1, r.said[1].Token, setOf(0, 1))
	r.step(0)
	r.now = written.Add(times.Term)
	r.say(1, r.said[1].Token, setOf(0, 1))
	r.step(0)
	if r.out.Split == tie.Won {
		t.Error("a grant outlives its term while the renewal is under way")
	}
}

// A member changes its statement, or states something for another Lease: the node does not feed.
func TestMembersEndTheGrant(t *testing.T) {
	for name, edit := range map[string]func(r *rig){
		"another token":   func(r *rig) { r.said[1].Token.Counter++ },
		"another view":    func(r *rig) { r.said[1].View = setOf(1, 2) },
		"another epoch":   func(r *rig) { r.said[1].RosterEpoch++ },
		"another roster":  func(r *rig) { r.said[1].RosterDigest++ },
		"no token":        func(r *rig) { r.said[1].Token = netgossip.Token{} },
		"too long ago":    func(r *rig) { r.at[1] = r.now - boottime.Instant(times.MaxAge) },
		"own view":        func(r *rig) { r.in.View = setOf(0, 2); r.say(2, r.said[1].Token, setOf(0, 2)) },
		"nothing":         func(r *rig) { delete(r.said, 1) },
		"no split at all": func(r *rig) { r.in = tie.Input{View: setOf(0, 1, 2)} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.won()
			edit(r)
			r.step(1)
			if r.out.Split == tie.Won && r.out.Until > r.now {
				t.Errorf("feeds until %v", r.out.Until)
			}
		})
	}
}

// A node without the API server feeds by the report of a member whose write has landed, if that is of this Lease and of
// the grant to exactly these tokens.
func TestRelay(t *testing.T) {
	r := newRig(t)
	r.answer(Unknown, Record{}, "")
	r.split()
	if r.out.Split != tie.Pending {
		t.Fatalf("split %d", r.out.Split)
	}
	want := Grant{Roster: roster.Ref{Epoch: 1, Digest: 7}, Holders: []Holder{{Node: "n1", Token: r.out.Token}, {Node: "n2", Token: r.said[1].Token}}}
	good := netgossip.Relay{Log: 9, Instance: want.Digest(), Anchor: r.now - boottime.Instant(time.Second)}
	for name, c := range map[string]struct {
		edit func(*netgossip.Relay)
		want tie.State
	}{
		"of this grant":    {func(*netgossip.Relay) {}, tie.Won},
		"of another grant": {func(w *netgossip.Relay) { w.Instance++ }, tie.Pending},
		"of another Lease": {func(w *netgossip.Relay) { w.Log++ }, tie.Pending},
		"too old":          {func(w *netgossip.Relay) { w.Anchor = r.now - boottime.Instant(times.Term) }, tie.Pending},
	} {
		word := good
		c.edit(&word)
		r.relay[1] = word
		r.step(0)
		if r.out.Split != c.want {
			t.Errorf("%s: split %d", name, r.out.Split)
		}
		if r.out.Relay.Instance != noGrant {
			t.Errorf("%s: it is passed on", name)
		}
	}
}

// The reply to a write is lost, and a read shows that it has landed.
func TestLostReply(t *testing.T) {
	r := newRig(t)
	r.answer(Done, Record{}, "1")
	r.step(times.Expire)
	r.split()
	sent, rec := r.now, r.op.Record
	r.now = r.now.Add(2 * tick)
	r.answer(Unknown, Record{}, "")
	r.say(1, r.said[1].Token, setOf(0, 1))
	r.step(tick)
	if r.out.Split == tie.Won {
		t.Fatal("won by a write of which nothing is known")
	}
	if r.op == nil || r.op.Kind != Read {
		t.Fatalf("op %+v", r.op)
	}
	r.answer(Done, rec, "2")
	r.step(0)
	if r.out.Split != tie.Won || r.a.landedAt != sent {
		t.Errorf("split %d, a write of %v counts from %v", r.out.Split, sent, r.a.landedAt)
	}
}

// The cases list what proves that a holder's token has moved on (K3), and what does not.
func TestProofOfMovedOn(t *testing.T) {
	holder := Holder{Node: "n2", Token: netgossip.Token{Nonce: 0xb2, Counter: 20}, Horizon: brief}
	for _, c := range []struct {
		name  string
		boot  uint64
		count uint32
		zero  bool
		old   bool // stated before the grant was known
		want  bool
	}{
		{name: "the same", boot: 0xb2, count: 20},
		{name: "a later one", boot: 0xb2, count: 21, want: true},
		{name: "a later one, said before", boot: 0xb2, count: 21, old: true, want: true},
		{name: "an earlier one", boot: 0xb2, count: 19},
		{name: "another boot", boot: 0xb3, count: 1, want: true},
		{name: "another boot, said before", boot: 0xb3, count: 1, old: true},
		{name: "none", boot: 0xb2, zero: true, want: true},
		{name: "none, said before", boot: 0xb2, zero: true, old: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			st := r.say(1, netgossip.Token{Nonce: c.boot, Counter: c.count}, setOf(0))
			if c.zero {
				st.Token = netgossip.Token{}
			}
			if c.old {
				r.now++
			}
			r.answer(Done, Record{Grant: Grant{Holders: []Holder{holder}}}, "1")
			r.step(1)
			if r.a.done[0] != c.want {
				t.Errorf("done %v", r.a.done[0])
			}
		})
	}
}

// A proof is about one grant's token, and means nothing for the next grant's.
func TestProofIsOfOneGrant(t *testing.T) {
	r := newRig(t)
	r.say(1, netgossip.Token{Nonce: 0xb2, Counter: 20}, setOf(0))
	r.answer(Done, Record{Grant: Grant{Holders: []Holder{{Node: "n2", Token: netgossip.Token{Nonce: 0xb2, Counter: 19}, Horizon: brief}}}}, "1")
	r.step(times.Refresh)
	if !r.a.done[0] {
		t.Fatal("no proof")
	}
	r.answer(Done, Record{Grant: Grant{Holders: []Holder{{Node: "n2", Token: netgossip.Token{Nonce: 0xb2, Counter: 20}, Horizon: brief}}}}, "2")
	r.step(1)
	if r.a.done[0] {
		t.Error("a proof outlives the grant it was for")
	}
}

// The cases list which grants may follow each other (K3, K4, K5).
func TestMayReplace(t *testing.T) {
	own := func(r *rig) netgossip.Token { return r.out.Token }
	member := netgossip.Token{Nonce: 0xb2, Counter: 20}
	for _, c := range []struct {
		name    string
		holders func(r *rig) []Holder
		n3      uint32 // counter that n3 shows; 0: nothing is heard of it
		n4      uint32
		age     time.Duration
		may     bool
	}{
		{name: "nobody, just made", holders: func(*rig) []Holder { return nil }},
		{name: "nobody, for long", holders: func(*rig) []Holder { return nil }, age: times.Expire, may: true},
		{name: "others", holders: func(*rig) []Holder {
			return []Holder{{Node: "n3", Token: netgossip.Token{Nonce: 3, Counter: 5}, Horizon: brief}}
		}},
		{name: "others who are over", n3: 6, n4: 6, may: true, holders: func(*rig) []Holder {
			return []Holder{{Node: "n3", Token: netgossip.Token{Nonce: 3, Counter: 5}, Horizon: brief}, {Node: "n4", Token: netgossip.Token{Nonce: 4, Counter: 5}, Horizon: brief}}
		}},
		{name: "others of whom one is over", n3: 6, n4: 5, holders: func(*rig) []Holder {
			return []Holder{{Node: "n3", Token: netgossip.Token{Nonce: 3, Counter: 5}, Horizon: brief}, {Node: "n4", Token: netgossip.Token{Nonce: 4, Counter: 5}, Horizon: brief}}
		}},
		{name: "others, nearly expired", age: times.Expire - 2*tick, holders: func(*rig) []Holder {
			return []Holder{{Node: "n3", Token: netgossip.Token{Nonce: 3, Counter: 5}, Horizon: brief}}
		}},
		{name: "others, expired", age: times.Expire, may: true, holders: func(*rig) []Holder {
			return []Holder{{Node: "n3", Token: netgossip.Token{Nonce: 3, Counter: 5}, Horizon: brief}}
		}},
		{name: "the same", may: true, holders: func(r *rig) []Holder {
			return []Holder{{Node: "n1", Token: own(r), Horizon: brief}, {Node: "n2", Token: member, Horizon: brief}}
		}},
		{name: "the same, one moved on", may: true, holders: func(r *rig) []Holder {
			return []Holder{{Node: "n1", Token: own(r), Horizon: brief}, {Node: "n2", Token: netgossip.Token{Nonce: 0xb2, Counter: 19}, Horizon: brief}}
		}},
		{name: "the same, by a later token than heard", holders: func(r *rig) []Holder {
			return []Holder{{Node: "n1", Token: own(r), Horizon: brief}, {Node: "n2", Token: netgossip.Token{Nonce: 0xb2, Counter: 21}, Horizon: brief}}
		}},
		{name: "a node that is in no roster", holders: func(*rig) []Holder {
			return []Holder{{Node: "x", Token: netgossip.Token{Nonce: 3, Counter: 5}, Horizon: brief}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.in = tie.Input{View: setOf(0, 1), Tie: true, TieSince: r.now}
			r.step(tick)
			for i, n := range map[int]uint32{2: c.n3, 3: c.n4} {
				if n > 0 {
					r.say(i, netgossip.Token{Nonce: uint64(i) + 1, Counter: n}, setOf(2, 3))
				}
			}
			r.answer(Done, Record{Grant: Grant{Roster: roster.Ref{Epoch: 1, Digest: 7}, Holders: c.holders(r)}}, "1")
			r.now = r.now.Add(c.age)
			r.say(1, member, setOf(0, 1))
			r.step(0)
			if got := r.op != nil && r.op.Kind == Write; got != c.may {
				t.Errorf("writes: %v, want %v; why %q", got, c.may, r.out.Why)
			}
		})
	}
}

// The expiry is counted again with each version, and with each Lease.
func TestExpiryIsOfOneVersion(t *testing.T) {
	others := Record{Grant: Grant{Holders: []Holder{{Node: "n3", Token: netgossip.Token{Nonce: 3, Counter: 5}, Horizon: brief}}}}
	r := newRig(t)
	r.answer(Done, others, "1")
	r.step(times.Refresh)
	if !r.a.expired(r.now) {
		t.Fatal("it has not expired")
	}
	r.answer(Done, others, "2")
	if r.a.expired(r.now) {
		t.Error("a renewed grant has expired")
	}
	r.step(times.Refresh)
	r.answer(Absent, Record{}, "")
	if r.a.expired(r.now) {
		t.Error("a deleted Lease has expired")
	}
	r.step(1)
	if r.op == nil || r.op.Kind != Create {
		t.Fatalf("op %+v", r.op)
	}
	r.answer(Done, Record{}, "3")
	if r.a.expired(r.now) {
		t.Error("a Lease made again has expired")
	}
}

// A half that finds that the other half has the Lease stops at once; one that finds a grant from before the split keeps
// asking.
func TestExcluded(t *testing.T) {
	others := Record{Grant: Grant{Holders: []Holder{{Node: "n3", Token: netgossip.Token{Nonce: 3, Counter: 5}, Horizon: brief}, {Node: "n4", Token: netgossip.Token{Nonce: 4, Counter: 5}, Horizon: brief}}}}
	r := newRig(t)
	r.answer(Done, others, "1")
	r.step(1)
	r.split()
	if r.out.Split != tie.Pending {
		t.Fatalf("by a read from before the split: %d", r.out.Split)
	}
	if r.op == nil {
		r.say(1, r.said[1].Token, setOf(0, 1))
		r.step(times.Poll)
	}
	r.answer(Done, others, "1")
	r.step(1)
	if r.out.Split != tie.Lost {
		t.Errorf("by a read of this split: %d", r.out.Split)
	}
}

// An API server in trouble is asked less and less often, until there is a tie.
func TestFailuresSpaceOutRequests(t *testing.T) {
	r := newRig(t)
	asked := 0
	for end := r.now.Add(10 * times.Refresh); r.now < end; r.step(times.Retry) {
		if r.op != nil {
			asked++
			r.answer(Unknown, Record{}, "")
		}
	}
	if asked < 10 || asked > 20 {
		t.Errorf("asked %d times in ten refresh intervals", asked)
	}
	r.split()
	for range 4 {
		if r.op == nil {
			t.Fatal("in a tie nothing is asked")
		}
		r.answer(Unknown, Record{}, "")
		r.step(times.Retry)
	}
}

// Guard: K2. A grant by one list of members is not valid under another list.
func TestAnotherListEndsTheGrant(t *testing.T) {
	r := newRig(t)
	r.won()
	token := r.out.Token
	list := *r.a.cfg.Roster
	list.Members = append([]roster.Member{{Name: "n0"}}, list.Members...)
	list.Self = 1
	r.a.SetRoster(&list, 4)
	r.in.View, r.in.Tie = setOf(1, 2), false
	r.step(tick)
	if r.out.Token == token || r.out.Token.IsZero() {
		t.Errorf("token %v, by the former list %v", r.out.Token, token)
	}
	r = newRig(t)
	r.won()
	token = r.out.Token
	r.a.SetRoster(r.a.cfg.Roster, 4) // the same members, so the same view
	r.step(tick)
	if r.out.Token == token || r.out.Split == tie.Won {
		t.Errorf("by another list of the same members: token %v, split %d", r.out.Token, r.out.Split)
	}
}
