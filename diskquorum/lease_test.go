package diskquorum

import (
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// quad returns four nodes in two halves, n0 and n1 against n2 and n3, each ready to propose a grant.
func quad(t *testing.T) *rig {
	t.Helper()
	r := startedRig(t, 4)
	r.settle([]int{0, 1}, []int{2, 3})
	return r
}

// won returns a quad that n0 and n1 have won.
func won(t *testing.T) *rig {
	t.Helper()
	r := quad(t)
	r.decide(t, 0)
	r.run(2 * time.Second)
	r.want(t, tie.Won, 0, 1)
	r.want(t, tie.Lost, 2, 3)
	return r
}

func (r *rig) want(t *testing.T, s tie.State, nodes ...int) {
	t.Helper()
	for _, i := range nodes {
		if got := r.nodes[i].out; got.Split != s {
			t.Fatalf("n%d: %v (%s), want %v", i, got.Split, got.Why, s)
		}
	}
}

// If a holder has given its grant up, Why tells this, and not that the other half lives.
func TestHolderThatGaveUpIsToldWhy(t *testing.T) {
	r := won(t)
	r.nodes[0].arb.moveToken()
	r.step(0)
	r.want(t, tie.Lost, 0, 2)
	if r.nodes[0].out.Why == "" || r.nodes[2].out.Why != "" {
		t.Errorf("the holder is told %q, the other half %q", r.nodes[0].out.Why, r.nodes[2].out.Why)
	}
}

// Guard: L5, L3. The conditions under which a half does not propose a grant, one at a time.
func TestHalfIsNotSettled(t *testing.T) {
	r := quad(t)
	n := r.nodes[0]
	a := n.arb
	peer := &a.table.entries[1]
	st := &peer.record().Statement
	said := *n.heard[1].statement
	for _, c := range []struct {
		name  string
		spoil func()
		why   string
	}{
		{"nothing", func() {}, ""},
		{"the peer's slot is claimed only", func() { peer.record().State = SlotClaiming }, "not active"},
		{"the peer has stopped", func() { peer.record().State = SlotStopped }, "not active"},
		{"the peer has given its slot back", func() { peer.record().State = SlotFree }, "has no slot"},
		{"the peer's slot cannot be read", func() { peer.status = slotUnknown }, "has no slot"},
		{"the peer has no slot", func() { peer.status = slotBlank }, "has no slot"},
		{"the peer is not of the roster", func() { peer.record().NodeName = "n9" }, "has no slot"},
		{"the peer has another roster epoch", func() { st.RosterEpoch++ }, "roster differs"},
		{"the peer has other names in its roster", func() { st.RosterDigest++ }, "roster differs"},
		{"nothing was heard of the peer", func() { n.heard[1].statement = nil }, "nothing heard"},
		{"the peer says that it has no token", func() { said.Token = Token{}; st.Token = Token{} }, "present token"},
		{"the peer's token has moved on", func() { said.Token.Counter++ }, "present token"},
		{"the peer's slot is ahead of what it said", func() { st.Token.Counter++ }, "present token"},
		{"this node's token has moved on", func() { a.token.Counter++ }, "present token"},
		{"the peer sees more", func() { st.View = roster.SetOf(0, 1, 2) }, "another view"},
		{"the peer sees less", func() { st.View = roster.SetOf(1) }, "another view"},
		{"the peer has shown it once", func() { peer.beats = 1 }, "only once"},
		{"this node's slot has shown it once", func() { a.table.entries[0].beats = 1 }, "only once"},
		{"the peer's slot has not moved lately", func() { peer.since = a.table.start - boottime.Instant(r.timing.fresh()) - 1 }, "does not move"},
		{"the peer's slot has never moved", func() { peer.after = 0 }, "does not move"},
	} {
		wasPeer, wasOwn, wasSaid, token := *peer, a.table.entries[0], said, a.token
		n.heard[1].statement = &said
		c.spoil()
		h := a.assess(n.view)
		if h.settled != (c.why == "") || !strings.Contains(h.why, c.why) {
			t.Errorf("%s: settled %v %q, want %q", c.name, h.settled, h.why, c.why)
		}
		*peer, a.table.entries[0], said, a.token = wasPeer, wasOwn, wasSaid, token
	}
	g := a.assess(n.view)
	want := &Grant{RosterEpoch: 1, RosterDigest: n.roster.Digest, Holders: []Holder{{0, n.out.Token}, {1, r.nodes[1].out.Token}}}
	if got := g.grant(); !same(got, want) {
		t.Errorf("grant %+v, want %+v", got, want)
	}
}

// Guard: L3. Members with different rosters never form a grant, and without a tie there is no ballot.
func TestMixedRostersAreNeverGranted(t *testing.T) {
	r := startedRig(t, 4)
	r.nodes[1].roster.Epoch = 2
	r.kill(2)
	r.kill(3)
	r.settle([]int{0, 1})
	r.run(20 * time.Second)
	if len(r.oracle.decided) != 0 {
		t.Fatalf("decided: %+v", r.oracle.decided)
	}
	r.want(t, tie.Pending, 0, 1)
}

// Guard: L3, L5, B7. The conditions under which a ballot does not begin, one at a time.
func TestBallotDoesNotBegin(t *testing.T) {
	three := func(t *testing.T) *rig {
		r := startedRig(t, 4)
		r.kill(3)
		r.settle([]int{0, 1, 2})
		r.hold(boottime.Never)
		r.run(5 * time.Second)
		r.hold(0)
		return r
	}
	for _, c := range []struct {
		name   string
		rig    func(*testing.T) *rig
		node   int
		change func(a *Arbiter, in *Input)
		begins bool
	}{
		{"nothing", quad, 0, func(*Arbiter, *Input) {}, true},
		{"there is no tie", quad, 0, func(_ *Arbiter, in *Input) { in.Tie = false }, false},
		{"the tie is lost", quad, 0, func(a *Arbiter, _ *Input) { a.out.Split = tie.Lost }, false},
		{"three of four are no half", three, 0, func(*Arbiter, *Input) {}, false},
		{"the view is not settled", quad, 0, func(a *Arbiter, _ *Input) { a.view = roster.SetOf(0, 2) }, false},
		{"a slot cannot be read", quad, 0, func(a *Arbiter, _ *Input) { a.table.entries[3].status = slotUnknown }, false},
		{"holders may feed", won, 2, func(*Arbiter, *Input) {}, false},
		{"it is not this node's turn yet", quad, 0, func(_ *Arbiter, in *Input) { in.TieSince = 1 << 60 }, false},
	} {
		r := c.rig(t)
		n := r.nodes[c.node]
		a, in := n.arb, &Input{Input: tie.Input{View: n.view, Tie: true, TieSince: 1}, Own: n.statement()}
		a.lostTo, a.out = 0, Output{Output: tie.Output{Split: tie.Pending}}
		c.change(a, in)
		a.maybePropose(r.now, in)
		if (a.prop.phase != phaseIdle) != c.begins {
			t.Errorf("%s: phase %d", c.name, a.prop.phase)
		}
	}
}

// Guard: L5. A holder without the LUN may feed by the writes of another holder, for its own G and W: so the wait for
// each holder uses the longest times of all holders that have not left.
func TestHoldersAreWaitedForByTheLongestTimes(t *testing.T) {
	const second = boottime.Instant(time.Second)
	tm := &Timing{Grant: 2 * time.Second, Expire: 7 * time.Second}
	for _, c := range []struct {
		name  string
		its   func(*Slot) // change to the holder whose slot has not changed for long
		left  bool        // its slot also shows that it renounced
		since boottime.Instant
		want  bool
	}{
		{"equal", func(*Slot) {}, false, 90, true},
		{"a longer grant", func(s *Slot) { s.GrantLifetime = 4 * time.Second }, false, 89, false},
		{"a longer grant, expired", func(s *Slot) { s.GrantLifetime = 4 * time.Second }, false, 88, true},
		{"a longer watchdog", func(s *Slot) { s.Statement.Guard.Timeout = 5 * time.Second }, false, 89, false},
		{"a longer watchdog, expired", func(s *Slot) { s.Statement.Guard.Timeout = 5 * time.Second }, false, 88, true},
		{"longer times, but it has left", func(s *Slot) { s.GrantLifetime, s.Statement.Guard.Timeout = time.Minute, time.Minute }, true, 90, true},
	} {
		p := newPhoto(t)
		p.written(41, func(s *Slot) {
			s.Statement.Token, s.Statement.Guard.Timeout = Token{Nonce: 9, Counter: 5}, 3*time.Second
		})
		writer := p.read(1, 2)
		writer.since, p.table.start, p.table.end = c.since*second, 100*second, 105*second
		still := &p.table.entries[0]
		still.status, still.since = slotKnown, 10*second
		rec := still.record()
		rec.Statement.Token = Token{Nonce: 1, Counter: 1}
		if c.left {
			rec.Statement.Token.Counter++
		}
		c.its(rec)
		g := &Grant{Holders: []Holder{{Slot: 0, Token: Token{Nonce: 1, Counter: 1}}, {Slot: 1, Token: Token{Nonce: 9, Counter: 5}}}}
		if got := p.table.holdersDone(g, tm, 3*time.Second); got != c.want {
			t.Errorf("%s: done %v, want %v", c.name, got, c.want)
		}
	}
}

// Guard: L5. A slot states the times for which the others have to wait.
func TestSlotStatesTheTimesOfItsOwner(t *testing.T) {
	r := startedRig(t, 2)
	a := r.nodes[1].arb
	a.own.Guard.Horizon = 80 * time.Second
	if rec := a.compose(r.now); rec.GrantLifetime != rigTiming().Grant || rec.GrantLifetime == 0 || rec.Statement.Guard.Horizon != 80*time.Second {
		t.Errorf("grant lifetime %v, horizon %v", rec.GrantLifetime, rec.Statement.Guard.Horizon)
	}
}

// Guard: L5. A holder is done only if it is gone, has renounced, or has expired.
func TestHolderDone(t *testing.T) {
	const second = boottime.Instant(time.Second)
	tm := &Timing{Grant: 2 * time.Second, Expire: 7 * time.Second}
	holder := Holder{Slot: 1, Token: Token{Nonce: 9, Counter: 5}}
	for _, c := range []struct {
		name  string
		shown Token
		since boottime.Instant // end of the first read that showed it
		own   time.Duration    // watchdog timeouts
		its   time.Duration
		spoil func(*entry)
		want  bool
	}{
		{"present", Token{Nonce: 9, Counter: 5}, 100, 3, 3, nil, false},
		{"gone", Token{Nonce: 8, Counter: 5}, 100, 3, 3, nil, true},
		{"renounced", Token{Nonce: 9, Counter: 6}, 100, 3, 3, nil, true},
		{"an old record that came back", Token{Nonce: 9, Counter: 4}, 100, 3, 3, nil, false},
		{"expired", Token{Nonce: 9, Counter: 5}, 90, 3, 3, nil, true},
		{"not quite expired", Token{Nonce: 9, Counter: 5}, 91, 3, 3, nil, false},
		{"its watchdog is slower", Token{Nonce: 9, Counter: 5}, 90, 3, 4, nil, false},
		{"this node's watchdog is slower", Token{Nonce: 9, Counter: 5}, 90, 4, 3, nil, false},
		{"its grant lasts longer", Token{Nonce: 9, Counter: 5}, 90, 3, 3, func(e *entry) { e.record().GrantLifetime = tm.Grant + time.Second }, false},
		{"its grant lasts longer, expired", Token{Nonce: 9, Counter: 5}, 89, 3, 3, func(e *entry) { e.record().GrantLifetime = tm.Grant + time.Second }, true},
		{"its grant lasts for less", Token{Nonce: 9, Counter: 5}, 91, 3, 3, func(e *entry) { e.record().GrantLifetime = tm.Grant / 2 }, false},
		{"unreadable", Token{Nonce: 8, Counter: 5}, 50, 3, 3, func(e *entry) { e.status = slotUnknown }, false},
		{"blank", Token{Nonce: 8, Counter: 5}, 50, 3, 3, func(e *entry) { e.status = slotBlank }, false},
	} {
		p := newPhoto(t)
		p.written(41, func(s *Slot) {
			s.Statement.Token, s.Statement.Guard.Timeout = c.shown, c.its*time.Second
		})
		e := p.read(1, 2)
		e.since, p.table.start, p.table.end = c.since*second, 100*second, 105*second
		if c.spoil != nil {
			c.spoil(e)
		}
		alone := &Grant{Holders: []Holder{holder}}
		if got := p.table.holdersDone(alone, tm, c.own*time.Second); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		other := Holder{Slot: 0, Token: Token{Nonce: 1, Counter: 1}}
		p.table.entries[0].status = slotKnown // shows no token: gone
		g := &Grant{Holders: []Holder{other, holder}}
		if got := p.table.holdersDone(g, tm, c.own*time.Second); got != c.want {
			t.Errorf("%s, with another that is gone: %v, want %v", c.name, got, c.want)
		}
	}
	p := newPhoto(t)
	p.read(1, 2)
	if p.table.holdersDone(&Grant{Holders: []Holder{{Slot: 3, Token: holder.Token}}}, tm, 0) {
		t.Error("a holder outside the table is done")
	}
	if !p.table.holdersDone(nil, tm, 0) {
		t.Error("no grant excludes somebody")
	}
}

// Guard: L6, each condition alone, because in real schedules several of them apply at once.
func TestFeedUntil(t *testing.T) {
	r := won(t)
	n := r.nodes[0]
	a, heard := n.arb, &n.heard[1]
	grant, view := a.lease.grant, n.view
	g := boottime.Instant(r.timing.Grant)
	now := heard.at
	a.anchor, a.relayed = now-10, now-30
	for _, c := range []struct {
		name  string
		spoil func(said *netgossip.Statement)
		want  boottime.Instant
	}{
		{"nothing", func(*netgossip.Statement) {}, now - 10 + g},
		{"the peer's evidence is older than this node's write", func(*netgossip.Statement) { heard.at = now - 20 }, now - 20 + g},
		{"this node's write is older than another holder's", func(*netgossip.Statement) { a.anchor = now - 50 }, now - 30 + g},
		{"only another holder's write is known", func(*netgossip.Statement) { a.anchor = 0 }, now - 30 + g},
		{"no write has landed", func(*netgossip.Statement) { a.anchor, a.relayed = 0, 0 }, 0},
		{"this node's token has moved on", func(*netgossip.Statement) { a.token.Counter++ }, 0},
		{"no token yet", func(*netgossip.Statement) { a.token = Token{} }, 0},
		{"no slot yet", func(*netgossip.Statement) { a.slot = -1 }, 0},
		{"no grant", func(*netgossip.Statement) { grant = nil }, 0},
		{"a grant to others", func(*netgossip.Statement) {
			grant = &Grant{Holders: []Holder{grant.Holders[1], {2, r.nodes[2].out.Token}}}
		}, 0},
		{"the view is greater", func(said *netgossip.Statement) { view = roster.SetOf(0, 1, 2); said.View = view }, 0},
		{"the view is less", func(*netgossip.Statement) { view = roster.SetOf(0) }, 0},
		{"the view is another", func(said *netgossip.Statement) { view = roster.SetOf(0, 2); said.View = view }, 0},
		{"the peer's token has moved on", func(said *netgossip.Statement) { said.Token.Counter++ }, 0},
		{"the peer's token is an older one", func(said *netgossip.Statement) { said.Token.Counter-- }, 0},
		{"the peer has rebooted", func(said *netgossip.Statement) { said.Token.Nonce++ }, 0},
		{"the peer sees another half", func(said *netgossip.Statement) { said.View = roster.SetOf(1, 2) }, 0},
		{"nothing was heard of the peer", func(*netgossip.Statement) { heard.statement = nil }, 0},
		{"the peer's slot cannot be read just now", func(*netgossip.Statement) { a.table.entries[1].status = slotUnknown }, now - 10 + g},
		{"a holder has no slot in the table", func(*netgossip.Statement) {
			grant = &Grant{Holders: []Holder{grant.Holders[0], {200, grant.Holders[1].Token}}}
		}, 0},
		{"the peer's slot is of somebody else", func(*netgossip.Statement) { a.table.entries[1].record().NodeName = "n2" }, 0},
	} {
		was, wasHeard, wasGrant, wasView, wasPeer := *a, *heard, grant, view, a.table.entries[1]
		said := *heard.statement
		heard.statement = &said
		c.spoil(&said)
		if got := a.feedUntil(grant, view); got != c.want {
			t.Errorf("%s: until %v, want %v", c.name, got, c.want)
		}
		*a, *heard, grant, view, a.table.entries[1] = was, wasHeard, wasGrant, wasView, wasPeer
	}
}

// A grant that had run out before this node learnt of it is not held at all.
func TestGrantThatHasRunOutIsNotWon(t *testing.T) {
	r := won(t)
	n := r.nodes[0]
	a := n.arb
	in := &Input{Input: tie.Input{View: n.view, Tie: true, TieSince: n.tieSince}, Own: n.statement()}
	until := a.feedUntil(a.lease.grant, n.view)
	for now, want := range map[boottime.Instant]bool{until - 1: true, until: false, until + 1: false} {
		a.granted, a.out = false, Output{}
		if a.judge(now, in); (a.out.Split == tie.Won) != want {
			t.Errorf("%v before the deadline: %v", until.Sub(now), a.out.Split)
		}
	}
}

// Guard: L6. If writes do not land, the grant ends within G, even if reads work, and the others take over
// (counterexample 7).
func TestReadsAloneDoNotRenewAGrant(t *testing.T) {
	for name, fail := range map[string]func(r *rig){
		"fail":           func(r *rig) { r.lose(0, false) },
		"get lost":       func(r *rig) { r.nodes[0].ios[0].todo = 0; r.complete(0) },
		"land but fail":  func(r *rig) { r.progress(r.nodes[0].ios[0], wholeIO); r.lose(0, false) },
		"never complete": nil,
	} {
		r := won(t)
		n := r.nodes[0]
		start := n.arb.anchor
		n.arb.relayed = 0
		for r.now < start.Add(r.timing.Grant)+1000 {
			r.now = r.now.Add(50 * time.Millisecond)
			r.gossip(0, 1)
			n.heard[1].relay = netgossip.Relay{} // node 1 has no path to the LUN at all
			for r.step(0); n.ios[0] != nil; r.step(0) {
				if n.ios[0].op.Kind == OpRead {
					r.complete(0)
				} else if fail == nil {
					break
				} else {
					fail(r)
				}
			}
			if n.out.Split == tie.Won && n.out.Until > start.Add(r.timing.Grant) {
				t.Fatalf("writes %s: feeds until %v, the last landed write began at %v", name, n.out.Until, start)
			}
		}
		if n.out.Split == tie.Won {
			t.Errorf("writes %s: still %v", name, n.out.Split)
		}
	}
}

// Guard: L5 (counterexample 6). A node that was paused decides by a new read, not by an earlier one: the holder may
// have come back in between.
func TestPausedNodeReadsAgainBeforeItTakesOver(t *testing.T) {
	r := duel(t)
	r.decide(t, 0)
	r.idle(0, time.Second)
	r.idle(1, 12*time.Second) // n0 is paused and expires
	a := r.nodes[1].arb
	if !a.table.holdersDone(a.lease.grant, &r.timing, rigWatchdog) {
		t.Fatal("n0 has not expired")
	}
	token := r.nodes[0].out.Token
	r.forge(t, 0, func(*Slot) {}) // n0 writes again
	r.drive(t, 1, phaseRead1)     // n1 wakes up, and begins a ballot by its old knowledge
	r.complete(1)
	if a.prop.phase != phaseIdle || !strings.Contains(a.lastEnd.reason, "may still feed") {
		t.Fatalf("phase %d, %+v, n0 %v", a.prop.phase, a.lastEnd, token)
	}
}

// Guard: L5. The other half takes over when the holders are gone, renounced or expired, and
// not before.
func TestTakingOver(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(r *rig)
		least time.Duration
		most  time.Duration
	}{
		"gone": {func(r *rig) {
			for i := range 2 {
				r.reboot(i, false)
				r.start(i)
				r.setView(i, i)
			}
		}, 0, 9 * time.Second},
		"renounced": {func(r *rig) { r.setView(0, 0); r.setView(1, 1) }, 0, 4 * time.Second},
		"expired":   {func(r *rig) { r.kill(0); r.kill(1) }, 9 * time.Second, 14 * time.Second},
		"one of them still there": {func(r *rig) {
			r.kill(0)
			r.setView(1, 1)
			r.nodes[1].arb.lease.grant = nil // cannot matter
		}, 9 * time.Second, 14 * time.Second},
	} {
		r := won(t)
		from := r.now
		c.leave(r)
		for r.now < from.Add(20*time.Second) && r.nodes[2].out.Split != tie.Won {
			r.run(100 * time.Millisecond)
		}
		if took := r.now.Sub(from); r.nodes[2].out.Split != tie.Won || took < c.least || took > c.most {
			t.Errorf("%s: n2 is %v (%s) after %v, want from %v to %v", name, r.nodes[2].out.Split, r.nodes[2].out.Why, took, c.least, c.most)
		}
	}
}

// Guard: L10. A member gives up a grant before any node lived by it: its agent restarts during the decision for its
// half, or its view changes while it cannot write, so that only its statement shows it. The others renounce, too,
// although they never fed under that grant: otherwise they stay holders that are not done, and no half can ever get a
// grant.
func TestGrantThatNobodyCanLiveByIsRenounced(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		r := quad(t)
		rival := []int{2, 3}
		r.drive(t, 0, phaseWrite2)
		r.nodes[1].arb.moveToken()
		if hangs {
			r.nodes[1].hangs = 1
		} else {
			r.kill(2)
			r.kill(3)
		}
		r.step(1)
		r.gossip(0, 1)
		r.hold(boottime.Never) // no other ballot yet
		r.run(500 * time.Millisecond)
		if len(r.oracle.decided) != 1 || r.oracle.won != 0 {
			t.Fatalf("%d decisions, %d steps with a grant: not the case in question", len(r.oracle.decided), r.oracle.won)
		}
		r.hold(0)
		r.run(r.timing.Expire + rigWatchdog + 5*time.Second)
		if hangs {
			r.want(t, tie.Won, rival...)
		} else {
			r.want(t, tie.Won, 0, 1)
		}
	}
}
