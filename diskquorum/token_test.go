package diskquorum

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// Guard: L1. After each of these events the token changes, exactly once.
func TestTokenMovesOn(t *testing.T) {
	for _, c := range []struct {
		name  string
		happy func(r *rig) // event that happens to n0, which has a grant
		moves uint32
	}{
		{"nothing happens", func(r *rig) { r.step(0) }, 0},
		{"the view changes", func(r *rig) { r.setView(0, 0, 1, 2); r.step(0) }, 1},
		{"the view changes and comes back unseen", func(r *rig) { r.setView(0, 0, 1, 2); r.setView(0, 0, 1); r.step(0) }, 0},
		{"the view changes and comes back", func(r *rig) { r.setView(0, 0, 1, 2); r.step(0); r.setView(0, 0, 1); r.step(0) }, 2},
		{"the grant's deadline passes", func(r *rig) { r.now = r.nodes[0].out.Until; r.step(0) }, 1},
		{"the agent sleeps through it", func(r *rig) { r.now = r.now.Add(time.Hour); r.step(0); r.step(0) }, 1},
		{"the evidence is withdrawn", func(r *rig) {
			said := *r.nodes[0].heard[1].statement
			said.Token.Counter++
			r.nodes[0].heard[1].statement = &said
			r.step(0)
		}, 1},
		{"the tie is over for the caller", func(r *rig) {
			n := r.nodes[0]
			n.out = *n.arb.Step(r.now, &Input{Input: tie.Input{View: n.view}, Own: n.statement()})
		}, 1},
		{"the agent restarts", func(r *rig) { r.crash(0) }, 1},
		{"its kernel restarts", func(r *rig) { r.reboot(0, false); r.start(0); r.restart(0) }, 0},
	} {
		r := won(t)
		n := r.nodes[0]
		was, boot := n.out.Token, n.boot
		c.happy(r)
		want := Token{Nonce: boot, Counter: was.Counter + c.moves}
		if n.boot != boot {
			want = Token{Nonce: n.boot, Counter: 1}
		}
		if n.out.Token != want {
			t.Errorf("%s: token %v, was %v, want %v", c.name, n.out.Token, was, want)
		}
		if (n.out.Split == tie.Won) != (c.moves == 0 && n.boot == boot) {
			t.Errorf("%s: %v", c.name, n.out.Split)
		}
		if c.moves > 0 && n.arb.granted {
			t.Errorf("%s: the grant is still held", c.name)
		}
	}
}

// Guard: L1. A changed token is written soon, not with the next heartbeat: others wait for it.
func TestMovedTokenIsPublishedSoon(t *testing.T) {
	r := won(t)
	r.setView(0, 0, 1, 2)
	r.run(r.timing.Heartbeat/10 + 200*time.Millisecond)
	if st := r.onLUN(t, 0).Statement; st.Token != r.nodes[0].out.Token || st.View != roster.SetOf(0, 1, 2) {
		t.Errorf("the slot shows %v %v, the token is %v", st.Token, members(st.View), r.nodes[0].out.Token)
	}
}

// Guard: L1. A node that could not write for G has renounced any grant that it got in that time, even if it has not
// read the grant yet: the others will soon take the node for expired.
func TestSilenceRenounces(t *testing.T) {
	for name, silence := range map[string]func(r *rig){
		"a read hangs":  func(r *rig) { r.drive(t, 0, phaseRead2) },
		"a write hangs": func(r *rig) { r.drive(t, 0, phaseWrite2); r.progress(r.nodes[0].ios[0], wholeIO) },
	} {
		r := duel(t)
		silence(r)
		token := r.nodes[0].out.Token
		r.idle(1, time.Second)
		g := r.decide(t, 1) // completes n0's instance
		if g.Holders[0] != (Holder{0, token}) {
			t.Fatalf("%s: n1 decided %+v", name, g)
		}
		r.now = r.now.Add(15 * time.Second)
		r.complete(0)
		r.restart(0)
		if n := r.nodes[0]; n.out.Token.Counter != token.Counter+1 || n.out.Split == tie.Won {
			t.Errorf("%s: n0 is %v with token %v after the silence, before it %v", name, n.out.Split, n.out.Token, token)
		}
	}
}

// Guard: L1. A deadline that has passed counts, even if the awaited evidence arrives before the next step.
func TestEvidenceThatComesTooLateRenewsNothing(t *testing.T) {
	r := won(t)
	n := r.nodes[0]
	r.idle(0, r.timing.Grant-500*time.Millisecond) // nothing is heard of n1
	until, token := n.out.Until, n.out.Token
	r.want(t, tie.Won, 0)
	r.now = until
	r.gossip(0, 1)
	if r.step(0); n.out.Token.Counter != token.Counter+1 || n.out.Split == tie.Won {
		t.Errorf("n0 is %v with token %v, was %v", n.out.Split, n.out.Token, token)
	}
}

// Guard: L1. A write that began in time but ended too late does not end the silence: the others may have taken this
// node for expired before the write landed.
func TestSlowWriteDoesNotMakeUpForSilence(t *testing.T) {
	r := duel(t) // it may be granted before it knows
	n := r.nodes[0]
	for n.ios[0] == nil || n.ios[0].op.Kind != OpWrite {
		if n.ios[0] != nil {
			r.complete(0)
		}
		r.now = n.arb.writeStart.Add(r.timing.Grant - time.Second)
		n.arb.retryAt = boottime.Never
		r.step(0)
	}
	token := n.out.Token
	r.now = r.now.Add(2 * time.Second)
	r.complete(0)
	if r.step(0); n.out.Token.Counter != token.Counter+1 {
		t.Errorf("token %v, was %v", n.out.Token, token)
	}
}

// Guard: L1. The next write shows the token that came with the silence. If that write also takes longer than G, the new
// token has not changed on the LUN for as long as the old one, and a grant may name it.
func TestWritesThatTakeLongerThanGRenounceEachTime(t *testing.T) {
	r := duel(t)
	n := r.nodes[0]
	n.arb.retryAt = boottime.Never
	for range 3 {
		r.nextWrite(t, 0)
		r.progress(n.ios[0], wholeIO)
		shown := n.out.Token
		for range 2 * r.timing.Grant / time.Second {
			r.now = r.now.Add(time.Second)
			r.step(0)
		}
		if moved := n.out.Token.Counter; moved != shown.Counter+1 || r.finish(0).Token.Counter != moved {
			t.Errorf("token %d, then %v, and the write that took %v has shown %v", moved, n.out.Token, 2*r.timing.Grant, shown)
		}
	}
}

// Silence changes the token once, not in every step: the counter is finite.
func TestSilenceMovesTheTokenOnce(t *testing.T) {
	r := won(t)
	r.beginWrite(t, 0)
	token := r.nodes[0].out.Token
	for range 100 {
		r.now = r.now.Add(time.Second)
		r.step(0)
	}
	if got := r.nodes[0].out.Token; got.Counter != token.Counter+1 {
		t.Errorf("token %v after a hundred steps, was %v", got, token)
	}
}

// Guard: L1. A wrapped counter would bring an old token back.
func TestTokenCounterDoesNotWrap(t *testing.T) {
	r := won(t)
	a := r.nodes[0].arb
	a.token.Counter = ^uint32(0)
	r.oracle.fatal = nil
	r.setView(0, 0)
	r.step(0)
	if !errors.Is(a.Failure(), errCounter) || a.token.Counter != ^uint32(0) {
		t.Errorf("failure %v, token %v", a.Failure(), a.token)
	}
	r.forge(t, 1, func(s *Slot) { s.Statement.Token.Counter = ^uint32(0) })
	r.crash(1)
	if err := r.nodes[1].arb.Failure(); !errors.Is(err, errCounter) {
		t.Errorf("after a restart: %v, token %v", err, r.nodes[1].arb.token)
	}
}

// Guard: L2, L11 (counterexample 25). A peer that is seen but not counted does not change the view: the survivor of two
// keeps its token, and so its grant.
func TestSightingDoesNotMoveTheToken(t *testing.T) {
	r := startedRig(t, 2)
	r.settle([]int{0}, []int{1})
	r.hold(boottime.Never)
	r.nodes[0].arb.retryAt = 0
	r.run(time.Second)
	n := r.nodes[0]
	if n.out.Split != tie.Won {
		t.Fatalf("node 0 has not won: %v %s", n.out.Split, n.out.Why)
	}
	token := n.out.Token
	own := n.statement()
	own.Seen = roster.SetOf(0, 1)
	out := n.arb.Step(r.now, &Input{Input: tie.Input{View: n.view, Tie: true, TieSince: n.tieSince}, Own: own})
	if out.Token != token || out.Split != tie.Won {
		t.Errorf("a sighting moved the token from %v to %v: %v", token, out.Token, out.Split)
	}
}

// Guard: L12. A node's turn comes this long after the start of the tie.
func TestDelay(t *testing.T) {
	r := quad(t)
	n := r.nodes[3]
	prefer, step := r.timing.PreferenceDelay, r.timing.Stagger
	for _, c := range []struct {
		name  string
		spoil func(in *Input, said *netgossip.Statement)
		want  time.Duration
	}{
		{"after the lower slot of its half", func(*Input, *netgossip.Statement) {}, step},
		{"alone in its half", func(*Input, *netgossip.Statement) { n.arb.view = roster.SetOf(3) }, 0},
		{"the lower slot has no LUN", func(_ *Input, said *netgossip.Statement) { said.LUNHealthy = false }, 0},
		{"nothing was heard of the lower slot", func(*Input, *netgossip.Statement) { n.heard[2].statement = nil }, 0},
		{"the lower slot is not active", func(*Input, *netgossip.Statement) { n.arb.table.entries[2].record().State = SlotStopped }, 0},
		{"the lower slot cannot be read", func(*Input, *netgossip.Statement) { n.arb.table.entries[2].status = slotUnknown }, 0},
		{"the API is preferred and nobody reaches it", func(*Input, *netgossip.Statement) { n.arb.prefer = true }, prefer + step},
		{"it is reached by this node", func(in *Input, _ *netgossip.Statement) { n.arb.prefer, in.Own.APIReachable = true, true }, step},
		{"it is reached by a member", func(_ *Input, said *netgossip.Statement) { n.arb.prefer, said.APIReachable = true, true }, step},
		{"it is reached, but not preferred", func(in *Input, _ *netgossip.Statement) { in.Own.APIReachable = true }, step},
	} {
		was, wasPeer, wasHeard := *n.arb, n.arb.table.entries[2], n.heard[2]
		said := *n.heard[2].statement
		n.heard[2].statement = &said
		in := &Input{Input: tie.Input{View: n.view, Tie: true, TieSince: n.tieSince}, Own: n.statement()}
		c.spoil(in, &said)
		if got := n.arb.delay(in); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		*n.arb, n.arb.table.entries[2], n.heard[2] = was, wasPeer, wasHeard
	}
}

// Guard: L12 (counterexample 24). The delay counts once, from the start of the tie: a flapping API does not start it
// again.
func TestFlappingAPIDoesNotStartTheDelayAnew(t *testing.T) {
	r := startedRig(t, 2)
	for i := range 2 {
		r.nodes[i].arb.prefer = true
	}
	r.setView(0, 0)
	r.setView(1, 1)
	from := r.now
	for range 60 {
		r.nodes[0].arb.retryAt = boottime.Never
		r.nodes[1].api = !r.nodes[1].api && r.now < from.Add(500*time.Millisecond)
		r.run(100 * time.Millisecond)
	}
	r.want(t, tie.Won, 1)
	if took := r.oracle.decided[1].since.Sub(from); took < r.timing.PreferenceDelay || took > r.timing.PreferenceDelay+500*time.Millisecond {
		t.Errorf("decided after %v, the delay is %v", took, r.timing.PreferenceDelay)
	}
}

// Guard: L12. A failed ballot is not repeated at once: two halves would obstruct each other for ever.
func TestBallotIsNotRepeatedAtOnce(t *testing.T) {
	r := duel(t)
	r.drive(t, 0, phaseRead1)
	r.lose(0, false)
	failed := r.now
	r.drive(t, 0, phaseWrite1)
	if took := r.now.Sub(failed); took < r.timing.Stagger/2 {
		t.Errorf("the next ballot begins after %v", took)
	}
}

// A ballot waits for a node of the other half that has not noticed the split, but only if that node is alive and uses
// the LUN.
func TestRivalThatHasNotNoticedTheSplitIsWaitedFor(t *testing.T) {
	r := quad(t)
	a := r.nodes[0].arb
	rival := &a.table.entries[2]
	for _, c := range []struct {
		name  string
		spoil func(rec *Slot)
		want  string
	}{
		{"it has noticed", func(*Slot) {}, ""},
		{"it counts a member of this half", func(rec *Slot) { rec.Statement.View = roster.SetOf(1, 2, 3) }, "n2"},
		{"it is not active", func(rec *Slot) { rec.Statement.View, rec.State = roster.SetOf(1, 2), SlotStopped }, ""},
		{"it does not move", func(rec *Slot) {
			rec.Statement.View, rival.after = roster.SetOf(1, 2), a.table.start-boottime.Instant(r.timing.fresh())-1
		}, ""},
		{"it may have moved long before a read showed it", func(rec *Slot) {
			rec.Statement.View, rival.since, rival.after = roster.SetOf(1, 2), a.table.start-1, a.table.start-boottime.Instant(r.timing.fresh())-1
		}, ""},
		{"it never moved", func(rec *Slot) { rec.Statement.View, rival.after = roster.SetOf(1, 2), 0 }, ""},
		{"it cannot be read", func(rec *Slot) { rec.Statement.View, rival.status = roster.SetOf(1, 2), slotUnknown }, ""},
		{"it is not of the roster", func(rec *Slot) { rec.Statement.View, rec.NodeName = roster.SetOf(1, 2), "n9" }, ""},
	} {
		was := *rival
		c.spoil(rival.record())
		if got := a.rivalUnaware(a.view); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		*rival = was
	}
	r.setView(2, 0, 2, 3)
	r.idle(2, 2*time.Second)
	r.idle(0, time.Second)
	a.retryAt = 0
	a.out.Split = tie.Pending
	a.maybePropose(r.now, &Input{Input: tie.Input{View: a.view, Tie: true, TieSince: 1}})
	if a.prop.phase != phaseIdle || !strings.Contains(a.out.Why, "n2 has not noticed") {
		t.Errorf("phase %d, %q", a.prop.phase, a.out.Why)
	}
}

// If the holders renounce while they are alive, as at an agent restart, the excluded half gives them time for a new
// grant for their half. Dead holders get no such time.
func TestExcludedHalfLetsTheHoldersGoFirst(t *testing.T) {
	for name, c := range map[string]struct {
		leave       func(r *rig)
		least, most time.Duration
	}{
		"renounced": {func(r *rig) { r.nodes[0].arb.moveToken() }, 6 * time.Second, 9 * time.Second},
		"gone":      {func(r *rig) { r.reboot(0, false); r.start(0); r.setView(0, 0) }, 0, 9 * time.Second},
		"dead":      {func(r *rig) { r.nodes[0].arb.moveToken(); r.idle(0, 200*time.Millisecond); r.kill(0) }, 3 * time.Second, 5 * time.Second},
	} {
		r := duel(t)
		r.nodes[1].arb.timing.Takeover = 7 * time.Second
		r.decide(t, 0)
		r.run(2 * time.Second)
		r.want(t, tie.Lost, 1)
		r.nodes[0].arb.retryAt = boottime.Never
		from := r.now
		c.leave(r)
		for r.now < from.Add(20*time.Second) && r.nodes[1].out.Split != tie.Won {
			if r.nodes[0].arb != nil {
				r.nodes[0].arb.retryAt = boottime.Never
			}
			r.run(100 * time.Millisecond)
		}
		if took := r.now.Sub(from); took < c.least || took > c.most {
			t.Errorf("%s: n1 is %v (%s) after %v, want from %v to %v", name, r.nodes[1].out.Split, r.nodes[1].out.Why, took, c.least, c.most)
		}
	}
}

// The time for the holders begins with a read which shows that they may feed. A read with an unknown slot excludes the
// other half (B9), but does not start the time again: otherwise the wait for a holder whose writes are torn would never
// end.
func TestUnreadableSlotDoesNotRenewTheHeadStart(t *testing.T) {
	r := duel(t)
	r.nodes[1].arb.timing.Takeover = 7 * time.Second
	r.decide(t, 0)
	r.run(2 * time.Second)
	r.nodes[0].arb.moveToken()
	r.hold(boottime.Never)
	r.run(2 * time.Second)
	r.want(t, tie.Pending, 1)
	a := r.nodes[1].arb
	was := a.lostUntil
	a.table.entries[0].status = slotUnknown
	if r.step(1); a.out.Split != tie.Lost || a.lostUntil != was {
		t.Errorf("%v, and the head start begins %v later", a.out.Split, a.lostUntil.Sub(was))
	}
}

// An unknown slot that does not belong to a holder does not hide that the holder may feed.
func TestUnreadableSlotOfAnotherDoesNotEndTheHeadStart(t *testing.T) {
	r := duel(t)
	r.decide(t, 0)
	r.run(2 * time.Second)
	r.want(t, tie.Lost, 1)
	a := r.nodes[1].arb
	a.table.entries[1].status = slotUnknown
	r.now += 1000
	if r.step(1); a.out.Split != tie.Lost || a.lostUntil != r.now {
		t.Errorf("%v, and the holder was seen last %v ago", a.out.Split, r.now.Sub(a.lostUntil))
	}
}

// A holder that renounced grants its half again without waiting for itself.
func TestHolderDoesNotWaitForItself(t *testing.T) {
	r := duel(t)
	for _, n := range r.nodes {
		n.arb.timing.Takeover = time.Minute
	}
	r.decide(t, 0)
	r.run(2 * time.Second)
	r.nodes[0].arb.moveToken()
	r.run(5 * time.Second)
	r.want(t, tie.Won, 0)
	if len(r.oracle.decided) != 2 {
		t.Errorf("%d decisions", len(r.oracle.decided))
	}
}

// Guard: L8, B7. The latest decision excludes a node only while its holders may feed, and only if a read in this tie
// shows that.
func TestExcluded(t *testing.T) {
	r := won(t)
	for _, c := range []struct {
		name  string
		node  int
		spoil func(a *Arbiter, tieSince *boottime.Instant)
		want  bool
	}{
		{"the other half", 2, func(*Arbiter, *boottime.Instant) {}, true},
		{"a holder", 0, func(*Arbiter, *boottime.Instant) {}, false},
		{"a holder whose token has moved on", 0, func(a *Arbiter, _ *boottime.Instant) { a.token.Counter++ }, true},
		{"the holders are done", 2, func(a *Arbiter, _ *boottime.Instant) {
			for i := range 2 {
				a.table.entries[i].record().Statement.Token.Counter++
			}
		}, false},
		{"one holder is done", 2, func(a *Arbiter, _ *boottime.Instant) { a.table.entries[0].record().Statement.Token.Counter++ }, true},
		{"the read is from before the tie", 2, func(a *Arbiter, since *boottime.Instant) { *since = a.table.start + 1 }, false},
		{"nothing was decided", 2, func(a *Arbiter, _ *boottime.Instant) { a.lease.grant = nil }, false},
	} {
		a := r.nodes[c.node].arb
		was, entries, since := *a, append([]entry(nil), a.table.entries...), a.table.start
		c.spoil(a, &since)
		if got := a.excluded(since); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		*a = was
		copy(a.table.entries, entries)
	}
	ballots := r.oracle.ballots
	r.run(5 * time.Second)
	r.want(t, tie.Lost, 2, 3)
	if len(r.oracle.ballots) != len(ballots) || len(r.oracle.decided) != 1 {
		t.Errorf("an excluded node began a ballot: %v", r.oracle.ballots)
	}
}
