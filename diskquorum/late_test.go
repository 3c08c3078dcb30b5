package diskquorum

import (
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// nextWrite runs a node, with its ballots held back, until it has a write under way.
func (r *rig) nextWrite(t *testing.T, i int) *rigIO {
	t.Helper()
	for range 100 {
		if n := r.nodes[i]; n.ios[0] == nil {
			r.now = r.now.Add(100 * time.Millisecond)
			r.step(i)
		} else if n.ios[0].op.Kind == OpWrite {
			return n.ios[0]
		} else {
			r.complete(i)
		}
	}
	t.Fatalf("n%d does not write", i)
	return nil
}

// failCopy fails a write of the node to one copy of its slot, which may land late. All
// other writes before and after it land.
func (r *rig) failCopy(t *testing.T, i, which int) {
	t.Helper()
	for range 4 {
		if io := r.nextWrite(t, i); io.op.Offset == SlotOffset(i, which) {
			r.lose(i, true)
			r.nextWrite(t, i)
			r.complete(i)
			return
		}
		r.complete(i)
	}
	t.Fatalf("n%d does not write copy %d", i, which)
}

// try runs one node alone for a while, and reports whether it began a ballot.
func (r *rig) try(i int) (began bool) {
	n := r.nodes[i]
	for end := r.now.Add(3 * time.Second); r.now < end; r.now = r.now.Add(10 * time.Millisecond) {
		if r.step(i); n.ios[0] != nil {
			r.complete(i)
		}
		began = began || n.arb.prop.phase != phaseIdle
	}
	return began
}

func (r *rig) landAll() {
	for len(r.late) > 0 {
		r.landLate(0, wholeIO)
	}
}

// Guard: B3. A write of copy A fails, a later one of copy B fails, a ballot decides for n0,
// both old writes land late, and n1 decides for itself in the same instance.
func TestLateWritesOfBothCopies(t *testing.T) {
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		r := startedRig(t, 2)
		for _, which := range order {
			r.failCopy(t, 0, which)
		}
		r.settle([]int{0}, []int{1})
		began := r.try(0)
		r.landAll()
		r.nodes[1].arb.retryAt = 0
		r.decide(t, 1)
		r.run(time.Minute)
		if a, b := r.nodes[0].out.Split, r.nodes[1].out.Split; began || a != tie.Lost || b != tie.Won {
			t.Errorf("n0 %v, n1 %v, n0 began a ballot: %v", a, b, began)
		}
	}
}

// Guard: B3. If one copy may be overwritten by a late write, ballots go on. If both may be, ballots wait, but not for
// ever.
func TestFailedWritesHoldBackUntilTheyCannotLand(t *testing.T) {
	r := startedRig(t, 2)
	r.failCopy(t, 0, 1)
	r.settle([]int{0}, []int{1})
	if !r.try(0) {
		t.Errorf("one failed write keeps n0 from its ballot: %s", r.nodes[0].out.Why)
	}
	r = startedRig(t, 2)
	r.failCopy(t, 0, 1)
	r.failCopy(t, 0, 0)
	failed := r.now
	r.settle([]int{0}, []int{1})
	if r.try(0) || r.nodes[0].out.Why != errLate.Error() {
		t.Errorf("n0 begins a ballot, or says: %s", r.nodes[0].out.Why)
	}
	r.idle(0, lateWrite-r.now.Sub(failed)-5*time.Second)
	if r.try(0) {
		t.Errorf("n0 begins a ballot %v after the second failure", r.now.Sub(failed))
	}
	r.idle(0, 6*time.Second)
	if !r.try(0) {
		t.Errorf("n0 begins none %v after the second failure: %s", r.now.Sub(failed), r.nodes[0].out.Why)
	}
}

// Guard: B3. An agent's record of failed writes also applies to the next agent, and a failed write of that agent may be
// the second one of the slot.
func TestFailedWritesOfThePredecessor(t *testing.T) {
	for _, c := range []struct {
		name           string
		before, after  int // copy of a write that fails; -1: none
		begins, passes bool
	}{
		{"a clean predecessor", -1, -1, true, true},
		{"one that said so", 0, -1, false, true},
		{"one that could not say, and a failure of its own", -1, 1, false, true},
	} {
		r := startedRig(t, 2)
		if c.before >= 0 {
			r.failCopy(t, 0, c.before)
		}
		r.crash(0)
		claimed := r.now
		if c.after >= 0 {
			r.failCopy(t, 0, c.after)
		}
		r.settle([]int{0}, []int{1})
		if began := r.try(0); began != c.begins {
			t.Errorf("%s: a ballot %v, want %v: %s", c.name, began, c.begins, r.nodes[0].out.Why)
		}
		r.idle(0, lateWrite-r.now.Sub(claimed)+time.Second)
		if began := r.try(0); !c.begins && began != c.passes {
			t.Errorf("%s: a ballot %v, want %v, %v later: %s", c.name, began, c.passes, r.now.Sub(claimed), r.nodes[0].out.Why)
		}
	}
}

// Guard: L1. A token never gets a second meaning. Here late writes overwrite both copies of the record that showed the
// token to a proposer, and the agent dies before it has written another record.
func TestLateWritesTakeATokenBack(t *testing.T) {
	r := startedRig(t, 2)
	r.failCopy(t, 0, 0)
	r.failCopy(t, 0, 1)
	r.settle([]int{0}, []int{1})
	shown := r.nodes[0].out.Token
	r.kill(0)
	clear(r.nodes[0].orphans)
	r.landAll()
	r.start(0)
	r.run(5 * time.Second)
	if now := r.nodes[0].out.Token; now.Nonce != shown.Nonce || now.Counter <= shown.Counter {
		t.Errorf("token %v after %v", now, shown)
	}
}

// Guard: L1. As before, but all records of the agent that has skipped tokens are overwritten: the next agent skips
// tokens from the same record.
func TestTwoAgentsThatLeapFromOneRecordPartWays(t *testing.T) {
	r := startedRig(t, 2)
	r.failCopy(t, 0, 0)
	r.failCopy(t, 0, 1)
	late := r.late
	r.crash(0)
	r.run(5 * time.Second)
	shown := r.nodes[0].out.Token
	r.late = late
	r.kill(0)
	clear(r.nodes[0].orphans)
	r.landAll()
	r.start(0)
	r.run(5 * time.Second)
	if now := r.nodes[0].out.Token; now.Counter == shown.Counter || shown.Counter < unseenTokens || now.Counter < unseenTokens {
		t.Errorf("token %v after %v", now, shown)
	}
}

// Guard: B9. A late write overwrites one copy; the owner died while it wrote the other copy, which held its accepted
// value.
func TestLateWriteAndATornOne(t *testing.T) {
	r := startedRig(t, 2)
	r.failCopy(t, 0, 0)
	r.settle([]int{0}, []int{1})
	r.nodes[0].arb.retryAt = 0
	r.decide(t, 0)
	for io := r.nextWrite(t, 0); io.op.Offset != SlotOffset(0, 1); io = r.nextWrite(t, 0) {
		r.complete(0)
	}
	r.progress(r.nodes[0].ios[0], 0b1111)
	r.kill(0)
	r.nodes[0].orphans[0] = nil
	r.landAll()
	for range 4 {
		r.try(1) // the oracle knows the decision
	}
	if _, g := r.nodes[1].arb.Decision(); g != nil || r.nodes[1].arb.table.unreadable() != 0 {
		t.Errorf("n1 decided %v; slot 0 unreadable: %v", g, r.nodes[1].arb.table.unreadable() == 0)
	}
}

// Guard: B3. A phase does not count on a device on which late writes can overwrite both copies.
func TestDoubtfulDeviceDoesNotCount(t *testing.T) {
	r := newSetRig(2, 3, rigTiming())
	r.oracle.fatal = t.Fatalf
	r.startAll()
	a := r.nodes[0].arb
	a.double, a.lanes[1].failed = true, [copiesPerSlot]boottime.Instant{r.now, r.now}
	r.settle([]int{0}, []int{1})
	if a.doubtful(0, r.now) || !a.doubtful(1, r.now) || !a.enoughSure(r.now) {
		t.Fatal("two devices of three are sure")
	}
	a.lanes[0].failed = a.lanes[1].failed
	if a.enoughSure(r.now) {
		t.Error("one device is enough")
	}
	a.lanes[0].failed = [copiesPerSlot]boottime.Instant{}
	for a.prop.phase != phaseWrite1 {
		r.now = r.now.Add(10 * time.Millisecond)
		for r.step(0); a.prop.phase != phaseWrite1 && r.nodes[0].busy(); r.step(0) {
			for d := range 3 {
				if r.nodes[0].ios[d] != nil {
					r.completeOn(0, d)
				}
			}
		}
	}
	n := r.nodes[0]
	for n.hangs = 0b100; n.busy(); r.step(0) { // device 2 does not answer
		for d := range 2 {
			if n.ios[d] != nil {
				r.completeOn(0, d)
			}
		}
	}
	if a.prop.phase != phaseWrite1 {
		t.Errorf("phase %d: device 1 counts", a.prop.phase)
	}
}

// Failed writes are recorded by the place of the device in the set, not by this node's order.
func TestLateDevicesOnTheLUN(t *testing.T) {
	r := newSetRig(2, 3, rigTiming())
	r.sbs[0], r.sbs[2] = r.sbs[2], r.sbs[0]
	a := NewArbiter(ArbiterConfig{Devices: r.sbs, Roster: r.nodes[0].roster, Evidence: r.nodes[0], Timing: rigTiming()})
	a.lanes[0].failed[1] = r.now
	if late := a.lateDevices(r.now); late != 0b100 {
		t.Errorf("late %03b, want device 2 of the set", late)
	}
	s := sampleSlot()
	s.Late = 0b101
	var got Slot
	if err := DecodeSlot(encodeSlot(t, &s), sampleID, s.Index, 0, &got); err != nil || got.Late != s.Late {
		t.Errorf("late %03b, %v", got.Late, err)
	}
}

// Guard: B7. If an instance has two values, for whatever reason, no node feeds by either of them any more, and none
// proposes, not even a node that sees both in other slots.
func TestTwoDecisionsAreNone(t *testing.T) {
	r := startedRig(t, 4)
	r.settle([]int{0, 1}, []int{2, 3})
	r.nodes[2].arb.retryAt, r.nodes[3].arb.retryAt = boottime.Never, boottime.Never
	r.run(3 * time.Second)
	if r.nodes[0].out.Split != tie.Won || r.nodes[1].out.Split != tie.Won {
		t.Fatalf("n0 %v, n1 %v", r.nodes[0].out.Split, r.nodes[1].out.Split)
	}
	r.oracle.fatal = nil
	forged := r.nodes[3].arb
	inst, _ := forged.Decision()
	forged.ballot.Decided = &Grant{RosterEpoch: 1, RosterDigest: r.nodes[3].roster.Digest, Holders: []Holder{{2, r.nodes[2].out.Token}, {3, r.nodes[3].out.Token}}}
	began := r.now
	r.run(1500 * time.Millisecond)
	for i, n := range r.nodes {
		if st := n.arb.Status(r.now); n.out.Split != tie.Unavailable || !strings.Contains(n.out.Why, "another decision of instance") || st.Healthy || st.Held || st.Instance != inst || st.Grant != nil {
			t.Errorf("n%d %v %v after: %v, %+v", i, r.now.Sub(began), n.out.Split, n.out.Why, st)
		}
	}
	r.hold(0)
	r.run(time.Minute)
	for i, n := range r.nodes {
		if latest, _ := n.arb.Decision(); latest != inst || n.arb.prop.phase != phaseIdle || n.out.Split != tie.Unavailable {
			t.Errorf("n%d goes on: instance %d, %v", i, latest, n.out.Split)
		}
	}
}

// Guard: B7. A ballot ends when its read shows two values of the instance before.
func TestTwoDecisionsEndABallot(t *testing.T) {
	r := duel(t)
	r.drive(t, 0, phaseRead1)
	a := r.nodes[0].arb
	a.ballot.Decided, a.ballot.DecidedInstance = &Grant{RosterEpoch: 1}, 1
	a.prop.instance, a.ballot.Instance = 2, 2
	e := &a.table.entries[1]
	e.status, e.newest.Ballot = slotKnown, Ballot{DecidedInstance: 1, Decided: &Grant{RosterEpoch: 2}}
	if err := a.overtaken(); err == nil || !strings.Contains(err.Error(), "another decision of instance 1") {
		t.Errorf("goes on: %v", err)
	}
}

// If a new decision has two values, neither is learnt.
func TestTwoDecisionsAreNotLearned(t *testing.T) {
	r := duel(t)
	a := r.nodes[0].arb
	e := &a.table.entries[1]
	e.status, e.newest.Ballot = slotKnown, Ballot{DecidedInstance: 7, Decided: &Grant{RosterEpoch: 2}}
	own := &a.table.entries[0]
	own.newest.Ballot = Ballot{DecidedInstance: 7, Decided: &Grant{RosterEpoch: 3}}
	if a.updateLease(); a.ballot.DecidedInstance != 0 || a.lease.grant != nil {
		t.Errorf("learned instance %d: %v", a.ballot.DecidedInstance, a.ballot.Decided)
	}
}
