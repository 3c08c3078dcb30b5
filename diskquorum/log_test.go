package diskquorum

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// onLUN decodes the newest readable copy of a slot.
func (r *rig) onLUN(t *testing.T, i int) *Slot {
	t.Helper()
	var newest *Slot
	for which := range copiesPerSlot {
		var s Slot
		off := SlotOffset(i, which)
		if DecodeSlot(r.image[off:off+BlockSize], r.sb.ID, i, which, &s) != nil {
			continue
		}
		if newest == nil || s.Sequence > newest.Sequence {
			newest = &s
		}
	}
	if newest == nil {
		t.Fatalf("slot %d has no readable copy", i)
	}
	return newest
}

// forge writes a record that its owner never wrote over the newer copy of slot i.
func (r *rig) forge(t *testing.T, i int, change func(*Slot)) {
	t.Helper()
	s := r.onLUN(t, i)
	s.Sequence += copiesPerSlot
	change(s)
	which := int(s.Sequence % copiesPerSlot)
	off := SlotOffset(i, which)
	if err := EncodeSlot(r.image[off:off+BlockSize], r.sb.ID, s, which); err != nil {
		t.Fatal(err)
	}
}

// spoil makes copy 0 of a slot fail its checksum; doing it again heals it.
func (r *rig) spoil(i int) { r.image[SlotOffset(i, 0)+700] ^= 1 }

// Guard: B1. Every write carries the whole ballot, including heartbeats.
func TestEveryWriteCarriesTheBallot(t *testing.T) {
	r := duel(t)
	r.drive(t, 0, phaseRead2) // both phases are written
	r.lose(0, false)          // and the ballot ends here
	for range 3 {
		r.idle(0, 1100*time.Millisecond)
		if got, want := r.onLUN(t, 0).Ballot, r.nodes[0].arb.ballot; want.Bal == 0 || !reflect.DeepEqual(got, want) {
			t.Fatalf("the slot shows %+v, want %+v", got, want)
		}
	}
	r.decide(t, 0)
	for range 3 {
		r.idle(0, 1100*time.Millisecond)
		if got, want := r.onLUN(t, 0).Ballot, r.nodes[0].arb.ballot; want.DecidedInstance != 1 || !reflect.DeepEqual(got, want) {
			t.Fatalf("the slot shows %+v, want %+v", got, want)
		}
	}
}

// Guard: B1. A node's next write carries a decision that it has read, and the decision is carried into the next
// instance (counterexample 13).
func TestDecisionsOfOthersAreCarried(t *testing.T) {
	r := duel(t)
	g := r.decide(t, 0)
	r.idle(0, 2*time.Second)
	r.idle(1, 2*time.Second)
	if b := r.onLUN(t, 1).Ballot; b.DecidedInstance != 1 || !same(b.Decided, g) {
		t.Fatalf("n1 carries %+v", b)
	}
	a := r.nodes[1].arb
	a.ballot = Ballot{}
	a.beginProposal(r.now, logState{latest: 1, grant: g}, half{})
	if a.ballot.Instance != 2 || a.ballot.DecidedInstance != 1 || a.ballot.Decided != g {
		t.Fatalf("n1 enters instance 2 with %+v", a.ballot)
	}
}

// Guard: B7. The deciding agent dies before it could publish: a node that reads its slot must not take the previous
// decision for the latest one (counterexample 11).
func TestUnpublishedDecisionIsPending(t *testing.T) {
	r := duel(t)
	g := r.decide(t, 0)
	r.kill(0)
	before := r.nodes[1].arb.anchor
	r.idle(1, 3*time.Second)
	if a := r.nodes[1].arb; !a.lease.pending || a.anchor != before {
		t.Fatalf("n1 relies on %+v, anchor %v, before %v", a.lease, a.anchor, before)
	}
	if again := r.decide(t, 1); !same(again, g) {
		t.Fatalf("n1 decided %+v, n0 %+v", again, g)
	}
}

// A holder must not renew its grant from a read which shows that there may be a later decision, or that a slot may hide
// one. It stops when its grant runs out. Guard: B7, B9.
func TestNobodyRenewsFromAnUncertainRead(t *testing.T) {
	for name, change := range map[string]func(*rig, *testing.T){
		"a value may be decided in the next instance": func(r *rig, t *testing.T) {
			r.forge(t, 1, func(s *Slot) {
				s.Ballot = Ballot{Instance: 2, MBal: 9, Bal: 9, Value: sampleGrant(1, 0), DecidedInstance: 1, Decided: r.oracle.decided[1].grant}
			})
		},
		"a slot fails its checksum": func(r *rig, _ *testing.T) { r.spoil(1) },
	} {
		r := duel(t)
		r.decide(t, 0)
		r.idle(0, 2*time.Second)
		r.kill(1)
		if r.step(0); r.nodes[0].out.Split != tie.Won {
			t.Fatalf("n0: %v %s", r.nodes[0].out.Split, r.nodes[0].out.Why)
		}
		token := r.nodes[0].out.Token
		change(r, t)
		until := r.nodes[0].out.Until
		r.idle(0, r.timing.Grant-time.Second)
		if out := r.nodes[0].out; out.Split == tie.Won && out.Until != until {
			t.Errorf("%s: renewed from %v to %v", name, until, out.Until)
		}
		r.idle(0, 1200*time.Millisecond)
		if out := r.nodes[0].out; out.Split == tie.Won || out.Token == token {
			t.Errorf("%s: %v with token %v after the deadline", name, out.Split, out.Token)
		}
	}
}

// One read in which a member's slot is torn or damaged does not end a grant at once.
func TestUnreadableSlotDoesNotEndAGrantAtOnce(t *testing.T) {
	r := won(t)
	token := r.nodes[0].out.Token
	r.spoil(1)
	r.idle(0, 600*time.Millisecond)
	if a := r.nodes[0].arb; !a.lease.unknown {
		t.Fatal("the damage was not read")
	}
	r.spoil(1)
	r.run(r.timing.Grant)
	if out := r.nodes[0].out; out.Split != tie.Won || out.Token != token {
		t.Errorf("%v with token %v, was %v", out.Split, out.Token, token)
	}
}

// Guard: B7. A decision after this node's grant ends the grant with the read that shows it, whatever else is unknown in
// that read.
func TestLaterDecisionEndsAGrantAtOnce(t *testing.T) {
	for _, pending := range []bool{false, true} {
		r := duel(t)
		r.decide(t, 0)
		r.idle(0, 2*time.Second)
		r.kill(1)
		r.oracle.fatal = nil // the forged decision breaks the oracle's rules
		r.forge(t, 1, func(s *Slot) {
			g := sampleGrant(1, 0)
			g.Holders[0] = Holder{1, s.Statement.Token}
			s.Ballot = Ballot{Instance: 2, MBal: 9, Bal: 9, Value: g, DecidedInstance: 2, Decided: g}
			if pending {
				s.Ballot.Instance = 3
			}
		})
		r.idle(0, 1100*time.Millisecond)
		if out := r.nodes[0].out; out.Split == tie.Won {
			t.Errorf("pending %v: n0 feeds until %v under the decision before", pending, out.Until)
		}
		if a := r.nodes[0].arb; pending && (a.anchor != 0 || a.lease.latest != 2) {
			t.Errorf("anchor %v, lease %+v", a.anchor, a.lease)
		}
	}
}

// Guard: B7. No ballot is begun while a slot may hide a decision.
func TestNoBallotWhileASlotCannotBeRead(t *testing.T) {
	r := duel(t)
	r.kill(0)
	r.spoil(0)
	r.idle(1, time.Second)
	r.run(3 * time.Second)
	if a := r.nodes[1].arb; a.prop.phase != phaseIdle || a.ballot.Instance != 0 {
		t.Fatalf("n1 began a ballot: %+v", a.ballot)
	}
	r.spoil(0)
	r.run(2 * time.Second)
	if n := r.nodes[1]; n.out.Split != tie.Won {
		t.Fatalf("n1: %v %s", n.out.Split, n.out.Why)
	}
}

// Guard: B9. A slot becomes unreadable in the middle of a ballot.
func TestUnreadableSlotEndsTheBallot(t *testing.T) {
	for _, at := range []phase{phaseRead1, phaseRead2} {
		r := duel(t)
		r.drive(t, 1, at)
		r.spoil(0)
		r.complete(1)
		endsWith(t, r, 1, false, "slot 0 cannot be read")
	}
}

// Guard: B9. A failed read proves nothing, whatever is in its buffer.
func TestFailedReadSaysNothing(t *testing.T) {
	r := duel(t)
	r.decide(t, 0)
	r.idle(0, 2*time.Second)
	n := r.nodes[1]
	for n.ios[0] == nil || n.ios[0].op.Kind != OpRead {
		if n.ios[0] != nil {
			r.complete(1)
		}
		r.now = r.now.Add(100 * time.Millisecond)
		r.step(1)
	}
	r.progress(n.ios[0], wholeIO)
	reads := n.arb.table.reads
	n.arb.Complete(r.now, &Completion{ID: n.ios[0].op.ID, Kind: OpRead, Started: n.ios[0].started, Ended: r.now, Data: n.ios[0].data, Err: errRigIO})
	if a := n.arb; a.table.reads != reads || a.ballot.DecidedInstance != 0 || a.healthy(r.now) {
		t.Errorf("after a failed read: %d reads, %d before, decision %d, healthy %v", a.table.reads, reads, a.ballot.DecidedInstance, a.healthy(r.now))
	}
}

// Guard: B6, L5. A new value needs a settled half, and holders that are done, in the very read of phase 1; it is not
// enough that this was true when the ballot began.
func TestOwnValueNeedsTheReadOfPhaseOne(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *rig, a *Arbiter)
		reason string
	}{
		{"this node's token has moved on", func(_ *rig, a *Arbiter) { a.moveToken() }, "does not show its present token"},
		{"the view has changed", func(_ *rig, a *Arbiter) { a.view = roster.SetOf(0, 1) }, "not settled"},
		{"a holder of the latest grant may feed", func(r *rig, a *Arbiter) {
			a.ballot.DecidedInstance, a.ballot.Decided = 0, &Grant{Holders: []Holder{{1, r.nodes[1].out.Token}}}
		}, "may still feed"},
		{"nothing", func(*rig, *Arbiter) {}, ""},
	} {
		r := duel(t)
		r.drive(t, 0, phaseRead1)
		a := r.nodes[0].arb
		c.change(r, a)
		r.complete(0)
		if c.reason == "" {
			if a.prop.phase != phaseWrite2 {
				t.Errorf("%s: no value: %+v", c.name, a.lastEnd)
			}
		} else if a.prop.phase != phaseIdle || !strings.Contains(a.lastEnd.reason, c.reason) {
			t.Errorf("%s: phase %d, %+v", c.name, a.prop.phase, a.lastEnd)
		}
	}
}
