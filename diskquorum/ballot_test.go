package diskquorum

import (
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// The tests of this file drive two halves of one node each, I/O by I/O, through the counterexamples that the guards of
// the ballot prevent. Without the guards they would end in two values of one instance, or in an overlooked decision,
// which the oracle of the rig usually finds.

// duel returns two nodes that see only themselves, both ready to begin a ballot.
func duel(t *testing.T) *rig {
	t.Helper()
	r := startedRig(t, 2)
	r.settle([]int{0}, []int{1})
	return r
}

// drive runs the I/O of one node until an I/O of the phase is under way.
func (r *rig) drive(t *testing.T, i int, to phase) {
	t.Helper()
	n := r.nodes[i]
	for range 100 {
		if n.ios[0] == nil {
			r.now += 10
			r.step(i)
		}
		if n.ios[0] != nil && n.arb.prop.phase == to {
			return
		}
		if n.ios[0] != nil {
			r.complete(i)
		}
		r.now = max(r.now+1000, min(n.out.Wake, r.now.Add(100*time.Millisecond)))
	}
	t.Fatalf("n%d never came to phase %d: %s, last ballot %+v", i, to, n.out.Why, n.arb.lastEnd)
}

// decide runs the ballots of one node until one ends with a decision whose publication has not begun.
func (r *rig) decide(t *testing.T, i int) *Grant {
	t.Helper()
	before := len(r.oracle.decided)
	for range 5 {
		r.drive(t, i, phaseRead2)
		if r.complete(i); r.nodes[i].arb.lastEnd.decided {
			_, g := r.nodes[i].arb.Decision()
			r.oracle.stepped(r.nodes[i], &r.nodes[i].out)
			return g
		}
	}
	t.Fatalf("n%d does not decide: %+v; %d decisions", i, r.nodes[i].arb.lastEnd, before)
	return nil
}

// crash kills an agent and starts it again in the same boot, up to the point where it could begin a ballot if it were
// not held back.
func (r *rig) crash(i int) {
	if r.nodes[i].arb != nil {
		r.kill(i)
	}
	r.nodes[i].orphans[0] = nil // its I/O under way is lost
	r.start(i)
	r.restart(i)
}

// restart runs one node, held back and alone, until it is settled again.
func (r *rig) restart(i int) { r.idle(i, 20*time.Second) }

// idle runs one node alone for d, its ballots held back.
func (r *rig) idle(i int, d time.Duration) {
	n := r.nodes[i]
	for end := r.now.Add(d); r.now < end; r.now = min(end, r.now.Add(100*time.Millisecond)) {
		n.arb.retryAt = boottime.Never
		for r.step(i); n.ios[0] != nil; r.finish(i) {
			r.now += 1000
		}
	}
	n.arb.retryAt = 0
}

func endsWith(t *testing.T, r *rig, i int, decided bool, reason string) {
	t.Helper()
	r.step(i)
	if e := r.nodes[i].out.Ended; e == nil || e.Decided != decided || !strings.Contains(e.Reason, reason) {
		t.Fatalf("n%d: ballot ended with %+v, want decided %v and %q", i, e, decided, reason)
	}
}

func TestOneHalfDecidesAndTheOtherObeys(t *testing.T) {
	r := duel(t)
	g := r.decide(t, 0)
	if len(g.Holders) != 1 || g.Holders[0] != (Holder{0, r.nodes[0].out.Token}) {
		t.Fatalf("decided %+v", g)
	}
	r.run(2 * time.Second)
	if a, b := r.nodes[0].out.Split, r.nodes[1].out.Split; a != tie.Won || b != tie.Lost {
		t.Fatalf("n0 %v, n1 %v", a, b)
	}
}

// Guard: B4. Both nodes entered the instance before either could see the other.
func TestBallotNumbersDiffer(t *testing.T) {
	r := duel(t)
	r.drive(t, 0, phaseWrite1)
	r.drive(t, 1, phaseWrite1)
	if a, b := r.nodes[0].arb.prop.number, r.nodes[1].arb.prop.number; a == b {
		t.Fatalf("both use number %d", a)
	}
}

// Guard: B4.
func TestBallotNumberIsAboveAllOfTheInstance(t *testing.T) {
	r := duel(t)
	r.drive(t, 0, phaseRead1)
	r.drive(t, 1, phaseRead1) // n0 and n1 have written ballots 2 and 3
	for _, c := range []struct {
		name        string
		own, peer   uint64
		peerIs      uint64
		least, most uint64
	}{
		{"this node's", 20, 3, 1, 21, 23},
		{"the peer's", 2, 31, 1, 32, 34},
		{"the peer's of another instance does not count", 2, 31, 2, 3, 5},
	} {
		a := r.nodes[0].arb
		a.ballot.MBal = c.own
		peer := &a.table.entries[1]
		peer.status, peer.record().Ballot = slotKnown, Ballot{Instance: c.peerIs, MBal: c.peer}
		if n := a.nextNumber(1); n < c.least || n > c.most || n%2 != 0 {
			t.Errorf("%s: own %d, peer %d: number %d, want an even one from %d to %d", c.name, c.own, c.peer, n, c.least, c.most)
		}
	}
}

// Guard: B5, the read of phase 2 is checked like that of phase 1 (counterexample 17).
func TestGreaterBallotStopsPhaseTwo(t *testing.T) {
	r := duel(t)
	r.drive(t, 0, phaseWrite2) // the write has not landed
	g := r.decide(t, 1)        // with a greater number: n1 has not seen the value
	r.complete(0)              // now the write lands
	r.step(0)
	r.complete(0)
	endsWith(t, r, 0, false, "slot 1 entered ballot")
	if again := r.decide(t, 0); !same(again, g) {
		t.Fatalf("n0 decided %+v, n1 %+v", again, g)
	}
}

// Guard: B5, the read of phase 1.
func TestGreaterBallotStopsPhaseOne(t *testing.T) {
	r := duel(t)
	r.drive(t, 0, phaseRead1)
	r.drive(t, 1, phaseRead1)
	r.complete(0)
	endsWith(t, r, 0, false, "slot 1 entered ballot 3")
}

// Guard: B6, the value of the greatest ballot is adopted, not this node's older one.
func TestGreatestAcceptedValueIsAdopted(t *testing.T) {
	r := duel(t)
	r.drive(t, 0, phaseWrite2) // accepts its own value in ballot 2, which has not landed
	g := r.decide(t, 1)        // ballot 3, unpublished
	r.kill(1)
	r.complete(0)
	if again := r.decide(t, 0); !same(again, g) {
		t.Fatalf("n0 decided %+v, n1 %+v", again, g)
	}
}

// Guard: B6, the read of phase 2 comes before the decision.
func TestNothingIsDecidedBeforeTheSecondRead(t *testing.T) {
	r := duel(t)
	r.drive(t, 0, phaseRead2)
	if inst, _ := r.nodes[0].arb.Decision(); inst != 0 {
		t.Fatalf("instance %d is decided with the write of phase 2", inst)
	}
	r.complete(0)
	if inst, _ := r.nodes[0].arb.Decision(); inst != 1 {
		t.Fatalf("instance %d is decided after the read of phase 2", inst)
	}
}

// Guard: B6. A value of the previous instance is not a candidate in this instance.
func TestValueOfAnotherInstanceIsNotAdopted(t *testing.T) {
	r := duel(t)
	r.decide(t, 1)
	r.crash(1) // this renounces the grant
	r.run(300 * time.Millisecond)
	g := r.decide(t, 0)
	if inst, _ := r.nodes[0].arb.Decision(); inst != 2 || g.Holders[0].Slot != 0 {
		t.Fatalf("instance %d: %+v", inst, g)
	}
}

// Guard: B3, B1. The deciding agent dies before it could publish, and the next agent writes the slot again
// (counterexample 14).
func TestRestartRemembersTheAcceptedValue(t *testing.T) {
	r := duel(t)
	g := r.decide(t, 0)
	r.crash(0)
	if again := r.decide(t, 1); !same(again, g) {
		t.Fatalf("n1 decided %+v, n0 %+v", again, g)
	}
	r.run(3 * time.Second)
	if n := r.nodes[0]; n.out.Split == tie.Won {
		t.Fatal("n0 feeds under a grant to its former token")
	}
}

// Guard: B5, phase 1 keeps what this node's slot accepted before.
func TestPhaseOneKeepsTheAcceptedValue(t *testing.T) {
	r := duel(t)
	g := r.decide(t, 0)
	r.crash(0)
	r.drive(t, 0, phaseRead1) // its new ballot is written
	r.nodes[1].arb.retryAt = 0
	if again := r.decide(t, 1); !same(again, g) {
		t.Fatalf("n1 decided %+v, n0 %+v", again, g)
	}
}

// Guard: B6. This node's accepted value counts like those of the others.
func TestOwnAcceptedValueIsAdopted(t *testing.T) {
	r := duel(t)
	g := r.decide(t, 0)
	r.crash(0)
	r.kill(1)
	if again := r.decide(t, 0); !same(again, g) {
		t.Fatalf("n0 decided %+v, and %+v before", again, g)
	}
}

// Guard: B5 (counterexample 12). A node's I/O has been hanging since before the decision. Its peer has decided the
// instance and entered the next one.
func TestSlowProposerSeesThatTheInstanceIsOver(t *testing.T) {
	r := duel(t)
	r.drive(t, 1, phaseWrite1) // slow
	r.decide(t, 0)
	r.crash(0)
	r.decide(t, 0)            // again: the agent does not remember the decision
	r.drive(t, 0, phaseRead1) // of instance 2: the slot no longer shows the value of 1
	if p := r.nodes[0].arb.prop; p.instance != 2 {
		t.Fatalf("n0 is in instance %d", p.instance)
	}
	r.complete(1)
	r.step(1)
	r.complete(1)
	endsWith(t, r, 1, false, "slot 0 knows the decision of instance 1")
}

// Guard: B5, each check alone, because in real schedules several of them apply at once.
func TestOvertaken(t *testing.T) {
	r := duel(t)
	r.drive(t, 0, phaseRead1)
	r.complete(0) // this node's slot has been read back
	a := r.nodes[0].arb
	a.prop = proposal{phase: phaseRead1, instance: 5, number: 20}
	own, peer := &a.table.entries[0], &a.table.entries[1]
	for _, c := range []struct {
		name   string
		spoil  func()
		reason string
	}{
		{"nothing", func() {}, ""},
		{"peer blank", func() { peer.status = slotBlank }, ""},
		{"an older instance", func() { peer.record().Ballot = Ballot{Instance: 4, MBal: 99, DecidedInstance: 4} }, ""},
		{"a lesser ballot", func() { peer.record().Ballot = Ballot{Instance: 5, MBal: 19, DecidedInstance: 4} }, ""},
		{"a greater ballot", func() { peer.record().Ballot = Ballot{Instance: 5, MBal: 21} }, "slot 1 entered ballot 21"},
		{"a greater instance", func() { peer.record().Ballot = Ballot{Instance: 6} }, "slot 1 is in instance 6"},
		{"the instance decided", func() { peer.record().Ballot = Ballot{Instance: 4, DecidedInstance: 5} }, "slot 1 knows the decision of instance 5"},
		{"a later one decided", func() { peer.record().Ballot = Ballot{Instance: 4, DecidedInstance: 7} }, "slot 1 knows the decision of instance 7"},
		{"peer unknown", func() { peer.status = slotUnknown }, "slot 1 cannot be read"},
		{"own unknown", func() { own.status = slotUnknown }, "own slot does not read back"},
		{"own blank", func() { own.status = slotBlank }, "own slot does not read back"},
		{"own of another process", func() { own.record().Process++ }, "own slot does not read back"},
		{"own older", func() { own.record().Sequence -= 2 }, "own slot does not read back"},
	} {
		wasOwn, wasPeer := *own, *peer
		peer.status, peer.record().Ballot = slotKnown, Ballot{}
		c.spoil()
		err := a.overtaken()
		if (err == nil) != (c.reason == "") || err != nil && !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v, want %q", c.name, err, c.reason)
		}
		*own, *peer = wasOwn, wasPeer
	}
}

// Guard: B2, B5. A write is lost although it was reported as done.
func TestLostWriteEndsTheBallot(t *testing.T) {
	for _, at := range []phase{phaseWrite1, phaseWrite2} {
		r := duel(t)
		r.drive(t, 0, at)
		a := r.nodes[0].arb
		a.lanes[0].failed[a.recorded%copiesPerSlot] = r.now // the cause may be a late write (B3), so the LUN need not have gone back (B11)
		r.nodes[0].ios[0].todo = 0
		r.complete(0)
		r.step(0)
		r.complete(0)
		endsWith(t, r, 0, false, "own slot does not read back")
	}
}

// Guard: B2. A failed I/O ends the ballot, and does not count.
func TestFailedIOEndsTheBallot(t *testing.T) {
	for at, reason := range map[phase]string{
		phaseWrite1: "write of this node's slot", phaseRead1: "read of the slot table",
		phaseWrite2: "write of this node's slot", phaseRead2: "read of the slot table",
	} {
		r := duel(t)
		r.drive(t, 0, at)
		r.lose(0, false)
		endsWith(t, r, 0, false, reason)
		if inst, _ := r.nodes[0].arb.Decision(); inst != 0 {
			t.Errorf("phase %d: decided although an I/O failed", at)
		}
	}
}

// Guard: B2. While the state of this node's slot is not known, no ballot begins.
func TestMayPropose(t *testing.T) {
	r := duel(t)
	a := r.nodes[0].arb
	for name, spoil := range map[string]func(){
		"a write did not land":           func() { a.lastWriteOK = false },
		"the slot does not read back":    func() { a.readBack = false },
		"the slot is not claimed":        func() { a.claim = claimWriting },
		"the slot was taken by a rival":  func() { a.claim = claimFailed },
		"the agent is about to stop":     func() { a.stop = true },
		"an I/O is under way (proposal)": nil,
	} {
		was := *a
		if spoil != nil {
			spoil()
			if a.mayPropose() {
				t.Errorf("%s: may propose", name)
			}
		} else {
			a.inFlight = true
			a.out = Output{Output: tie.Output{Split: tie.Pending}}
			a.maybePropose(r.now, &Input{Input: tie.Input{View: a.view, Tie: true, TieSince: r.nodes[0].tieSince}})
			if a.prop.phase != phaseIdle {
				t.Errorf("%s: a ballot begins", name)
			}
		}
		*a = was
		if !a.mayPropose() {
			t.Fatal("the node may not propose even without that")
		}
	}
}
