package diskquorum

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// slowed makes a node measure I/Os of that length.
func (n *rigNode) slowed(now boottime.Instant, io time.Duration) {
	for range 40 {
		n.arb.pace.note(now, OpWrite, io)
		n.arb.pace.note(now, OpRead, io)
	}
}

// Guard: one proposer at a time. A node that sees another node's ballot waits for the time of one ballot, by its own
// measured I/O, counted from the ballot's last step. If the ballot's owner does not write, it does not wait.
func TestBallotUnderWayIsLeftAlone(t *testing.T) {
	r := duel(t)
	a := r.nodes[0].arb
	r.drive(t, 1, phaseRead1) // n1 has written its number
	a.retryAt = boottime.Never
	r.run(time.Second / 2)
	r.nodes[0].slowed(r.now, 300*time.Millisecond)
	a.retryAt = 0
	seen := a.others.since
	if a.others.slot != 1 || seen == 0 {
		t.Fatalf("the ballot of n1 is not seen: %+v", a.others)
	}
	if want := seen.Add(8 * 300 * time.Millisecond); a.yieldsUntil() < want.Add(-50*time.Millisecond) || a.yieldsUntil() > want.Add(50*time.Millisecond) {
		t.Errorf("it is left alone for %v, want eight I/Os", a.yieldsUntil().Sub(seen))
	}
	for r.step(0); r.nodes[0].ios[0] != nil; r.finish(0) {
	}
	if a.prop.phase != phaseIdle {
		t.Error("n0 begins a ballot beside that of n1")
	}
	a.table.entries[1].newest.Ballot.Bal = 3
	a.table.end = r.now
	if a.followBallots(); a.others.since != r.now {
		t.Error("an accepted value is no step")
	}
	a.table.entries[1].since = 0
	if a.followBallots(); a.yieldsUntil() != 0 {
		t.Error("a slot that stands still is waited for")
	}
}

// earlyBallot lets node 0 of 2 | 2 write phase 1 with its second heartbeat, before node 1 has written its second one.
func earlyBallot(t *testing.T) *rig {
	t.Helper()
	r := startedRig(t, 4)
	for _, g := range [][]int{{0, 1}, {2, 3}} {
		for _, i := range g {
			r.setView(i, g...)
		}
	}
	r.hold(boottime.Never)
	n := r.nodes[0]
	for h := n.arb.assess(n.view); !h.near; h = n.arb.assess(n.view) {
		r.run(100 * time.Millisecond) // until each slot shows the new view once
	}
	n.slowed(r.now, 400*time.Millisecond)
	n.arb.retryAt, n.arb.ready = 0, 0
	if h := n.arb.assess(n.view); h.settled || !h.near {
		t.Fatalf("settled %v, near %v: %s", h.settled, h.near, h.why)
	}
	r.now = max(r.now, n.arb.writeDue())
	r.drive(t, 0, phaseRead1)
	return r
}

// Guard: L5. If I/O is slow, phase 1 may be written before the half has settled. Its read is repeated until the half
// has settled; no value is proposed before.
func TestEarlyPhaseOnePutsNothingForward(t *testing.T) {
	r := earlyBallot(t)
	n := r.nodes[0]
	for range 3 {
		r.now = r.now.Add(200 * time.Millisecond)
		if r.step(0); n.ios[0] != nil {
			r.finish(0)
		}
		if n.arb.prop.phase != phaseRead1 || n.arb.ballot.Value != nil {
			t.Fatalf("phase %d, value %v, before n1 has shown its view twice", n.arb.prop.phase, n.arb.ballot.Value)
		}
	}
	r.now = max(r.now, r.nodes[1].arb.writeDue())
	r.idle(1, 100*time.Millisecond)
	for range 3 {
		r.now = r.now.Add(200 * time.Millisecond)
		if r.step(0); n.ios[0] != nil && n.arb.prop.phase == phaseRead1 {
			r.finish(0)
		}
	}
	if n.arb.prop.phase != phaseWrite2 || n.arb.ballot.Value == nil {
		t.Errorf("phase %d, value %v: %s", n.arb.prop.phase, n.arb.ballot.Value, n.arb.assess(n.view).why)
	}
}

// A member that does not write again delays an early ballot for no longer than a ballot takes, because this node's
// heartbeats wait during that time.
func TestEarlyPhaseOneIsGivenUp(t *testing.T) {
	r := earlyBallot(t)
	n := r.nodes[0]
	limit := n.arb.prop.begun.Add(n.arb.ballotTime())
	for r.now < limit.Add(300*time.Millisecond) {
		r.now = r.now.Add(200 * time.Millisecond)
		if r.step(0); n.ios[0] != nil {
			r.finish(0)
		}
		if end := n.out.Ended; end != nil && !end.Decided {
			return
		}
	}
	t.Errorf("phase %d, value %v, %v after the ballot was to be over", n.arb.prop.phase, n.arb.ballot.Value, r.now.Sub(limit))
}

// If a LUN answers too slowly for an equal split to be decided within A, there is a warning, but the LUN is not lost:
// the node still takes part in a decision, and tells its peers that it has the LUN. A minute after the slow I/O, the
// warning ends.
func TestTooSlowIsNotLost(t *testing.T) {
	for _, c := range []struct {
		io   time.Duration
		slow bool
	}{{5 * time.Millisecond, false}, {900 * time.Millisecond, false}, {1100 * time.Millisecond, true}} {
		r := startedRig(t, 2)
		n := r.nodes[0]
		n.slowed(r.now, c.io)
		r.step(0)
		if got := n.arb.DeviceTrouble(0, r.now); (got != "") != c.slow || !n.out.Healthy {
			t.Errorf("%v: trouble %q, healthy %v", c.io, got, n.out.Healthy)
		}
		r.run(90 * time.Second)
		if got := n.arb.DeviceTrouble(0, r.now); got != "" {
			t.Errorf("%v: after 90 s of quick I/O: %s", c.io, got)
		}
	}
}

// One hung I/O proves nothing about later ones: after a path failover, the LUN is healthy as soon as it works.
func TestOneHungIOIsNotSlow(t *testing.T) {
	s := newSlow(5 * time.Millisecond)
	for s.now < boottime.Instant(time.Hour+60*time.Second) {
		s.step()
	}
	for s.op == nil {
		s.step()
	}
	for s.latency = 30 * time.Second; s.op != nil && s.now < s.began.Add(s.latency); {
		s.step()
	}
	s.latency = 5 * time.Millisecond
	for end := s.now.Add(time.Second); s.now < end; {
		s.step()
	}
	if why := s.a.DeviceTrouble(0, s.now); why != "" || s.a.pace.slowest() < 100*time.Millisecond {
		t.Errorf("%s, slowest %v", why, s.a.pace.slowest())
	}
}

// The longest round fits into A, with the time that a half without the API leaves to the other one, and with both copies.
func TestSlowestRound(t *testing.T) {
	tm := Timing{Heartbeat: time.Second, Arbitrate: 10 * time.Second, PreferenceDelay: 2 * time.Second}
	for _, c := range []struct {
		copies  int
		delayed bool
		a, want time.Duration
	}{
		{1, false, 10 * time.Second, 2 * time.Second}, {2, false, 12 * time.Second, 2 * time.Second}, {1, true, 12 * time.Second, 2 * time.Second},
		{1, false, 3500 * time.Millisecond, 500 * time.Millisecond}, {2, true, time.Second, 0},
	} {
		tm.Arbitrate = c.a
		if got := tm.SlowestRound(c.copies, c.delayed); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Guard: E3. A sentence has landed only if the write that contains it succeeded, even if the slot in the same operation
// could not be written.
func TestBlockBesideAFailedWrite(t *testing.T) {
	for _, failed := range []bool{true, false} {
		s := newSlow(900 * time.Millisecond)
		s.always = true
		for s.now < boottime.Instant(time.Hour+60*time.Second) {
			s.step()
		}
		for s.op == nil || s.op.Beside == nil {
			s.step()
		}
		s.a.judged.counter = s.a.echo.count
		c := Completion{ID: s.op.ID, Kind: OpWrite, Started: s.now, Ended: s.now}
		if failed {
			c.Err = errRigIO
		}
		s.a.Complete(s.now, &c)
		if s.a.judged.landed == failed {
			t.Errorf("failed %v: landed %v", failed, s.a.judged.landed)
		}
	}
}
