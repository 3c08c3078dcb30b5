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

// lateWrites has three ways to give node i a write that may land late and was composed before all following ones. Each
// leaves i ready to begin a ballot.
var lateWrites = map[string]func(*rig, *testing.T, int){
	"reboot": func(r *rig, t *testing.T, i int) {
		r.beginWrite(t, i)
		r.kill(i)
		r.reboot(i, true)
		r.start(i)
		r.restart(i)
	},
	"failed write": func(r *rig, t *testing.T, i int) {
		r.beginWrite(t, i)
		r.lose(i, true)
		r.restart(i)
	},
	"failed write of the process before": func(r *rig, t *testing.T, i int) {
		r.beginWrite(t, i)
		r.lose(i, true)
		r.crash(i)
	},
	"torn write of the process before": func(r *rig, t *testing.T, i int) {
		r.beginWrite(t, i)
		r.progress(r.nodes[i].ios[0], 0b10110)
		r.lose(i, true)
		r.crash(i)
	},
}

// beginWrite steps a node until a heartbeat is under way.
func (r *rig) beginWrite(t *testing.T, i int) {
	t.Helper()
	n := r.nodes[i]
	for n.arb.retryAt = r.now + 1<<60; n.ios[0] == nil || n.ios[0].op.Kind != OpWrite; r.now = r.now.Add(100 * time.Millisecond) {
		if n.ios[0] != nil {
			r.complete(i)
		}
		r.step(i)
	}
	n.arb.retryAt = 0
}

// Guard: B3 (counterexample 15). A late write must not destroy the accepted value, no matter which copy it hits.
func TestLateWriteDoesNotEraseTheAcceptedValue(t *testing.T) {
	for name, late := range lateWrites {
		for heartbeats := range 2 {
			r := duel(t)
			late(r, t, 0)
			for range heartbeats {
				r.beginWrite(t, 0)
				r.finish(0)
			}
			g := r.decide(t, 0)
			r.kill(0)
			if len(r.late) != 1 {
				t.Fatalf("%s: %d late writes", name, len(r.late))
			}
			r.landLate(0, wholeIO)
			if again := r.decide(t, 1); !same(again, g) {
				t.Fatalf("%s, %d heartbeats: n1 decided %+v, n0 %+v", name, heartbeats, again, g)
			}
		}
	}
}

// Guard: B3. Until the lock is held, an earlier agent of this host may write, so the slot is read again under the lock.
func TestSlotIsReadAgainUnderItsLock(t *testing.T) {
	r := duel(t)
	n := r.nodes[0]
	r.drive(t, 0, phaseWrite2)
	r.kill(0)
	r.start(0)
	r.untilLockWanted(0)
	accepted := n.orphans[0]
	r.progress(accepted, wholeIO)
	n.orphans[0] = nil
	r.grantLock(n)
	r.restart(0)
	if b := r.onLUN(t, 0).Ballot; b.Bal == 0 || b.Value == nil {
		t.Fatalf("the next agent forgot what was accepted: %+v", b)
	}
}

// Guard: B1, B3. The knowledge from the first read is kept, even if the read under the lock does not show it any more
// and this node's record is older.
func TestStartKeepsWhatTheFirstReadTaught(t *testing.T) {
	r := duel(t)
	n := r.nodes[0]
	r.kill(0)
	clear(n.orphans)
	r.decide(t, 1)
	r.idle(1, 2*time.Second)
	r.start(0)
	n.orphans[0] = &rigIO{}
	r.untilLockWanted(0)
	if inst, _ := n.arb.Decision(); inst != 1 {
		t.Fatalf("the first read taught instance %d", inst)
	}
	r.spoil(1)
	n.orphans[0] = nil
	r.grantLock(n)
	r.restart(0)
	if inst, _ := n.arb.Decision(); inst != 1 || r.onLUN(t, 0).Ballot.DecidedInstance != 1 {
		t.Errorf("instance %d is known, and %d written", inst, r.onLUN(t, 0).Ballot.DecidedInstance)
	}
}

// untilLockWanted runs a node that cannot get its lock until it asks for it.
func (r *rig) untilLockWanted(i int) {
	for n := r.nodes[i]; !n.wantLock; r.now += 1000 {
		if n.ios[0] != nil {
			r.complete(i)
		}
		r.step(i)
	}
}

// Guard: B3. The first write of an agent, and the write after a failed one, do not overwrite the newest record and have
// a new sequence.
func TestNewestRecordIsNeverWrittenOver(t *testing.T) {
	r := duel(t)
	n := r.nodes[0]
	newest := func() (copy int64, sequence uint64) {
		s := r.onLUN(t, 0)
		return SlotOffset(0, int(s.Sequence%copiesPerSlot)), s.Sequence
	}
	next := func(what string) uint64 {
		t.Helper()
		copy, sequence := newest()
		r.beginWrite(t, 0)
		if n.ios[0].op.Offset == copy || n.arb.seq <= sequence {
			t.Fatalf("%s: write %d goes to %d, where record %d is", what, n.arb.seq, n.ios[0].op.Offset, sequence)
		}
		return n.arb.seq
	}
	for range 4 {
		next("heartbeat")
		r.finish(0)
	}
	lost := next("heartbeat")
	r.lose(0, false)
	if again := next("after a failed write"); again == lost {
		t.Fatalf("sequence %d is used again", lost)
	}
	r.progress(n.ios[0], 0b1101)
	r.lose(0, false)
	torn := next("after a torn write")
	r.progress(n.ios[0], 0b1101)
	r.kill(0)
	seen := map[uint64]bool{torn: true}
	for range 5 {
		n.orphans[0] = nil
		r.start(0)
		if first := next("after a restart"); seen[first] || first < torn {
			t.Fatalf("the first write has sequence %d, used were %v", first, seen)
		} else {
			seen[first] = true
		}
		r.kill(0)
	}
}

// The first writes of a slot are consecutive, without a random distance.
func TestFirstSequence(t *testing.T) {
	a := startedRig(t, 2).nodes[0].arb
	for _, c := range []struct{ newest, torn, least, most uint64 }{
		{1, 0, 4, 4}, {2, 0, 5, 5}, {2, 3, 5, 5}, {2, 5, 7, 7}, {2, 8, 9, 9}, {16, 0, 19, 19}, {3, 1 << 60, 1<<60 + 1, 1<<60 + 2},
		{17, 0, 22, 1 << 34}, {100, 101, 105, 1 << 34}, {100, 1 << 60, 1<<60 + 2, 1<<60 + 1<<34},
	} {
		a.table.entries[0].tearing = c.torn
		for range 20 {
			if first := a.firstSequence(c.newest); first < c.least || first > c.most || first%2 == c.newest%2 {
				t.Fatalf("newest %d, torn %d: %d, want %d to %d, in the other copy", c.newest, c.torn, first, c.least, c.most)
			}
		}
	}
}

// Guard: B3. Even the very first write of a slot may land late.
func TestTornFirstWriteMakesBallotsGoToBothCopies(t *testing.T) {
	r := newRig(2, rigTiming())
	r.oracle.fatal = t.Fatalf
	r.start(0)
	r.beginWrite(t, 0)
	r.progress(r.nodes[0].ios[0], 0b1011)
	r.lose(0, true)
	r.crash(0)
	if a := r.nodes[0].arb; !a.double || a.claim != claimActive {
		t.Errorf("double %v, claim %d", a.double, a.claim)
	}
}

// newcomer is a LUN on which n1 runs and n0 is about to begin.
func newcomer(t *testing.T) *rig {
	t.Helper()
	r := newRig(2, rigTiming())
	r.oracle.fatal = t.Fatalf
	r.start(1)
	r.run(4 * time.Second)
	return r
}

// Guard: claim. Each of these causes ends a claim for good. A node that has given up does no I/O any more.
func TestClaimFails(t *testing.T) {
	refused := errors.New("somebody has it")
	foreign := func(name string) func(*Slot) {
		return func(s *Slot) { s.NodeName, s.Process = name, 99 }
	}
	for _, c := range []struct {
		name string
		run  func(r *rig, n *rigNode)
		want error
		text string
	}{
		{"the lock is refused", func(r *rig, n *rigNode) {
			r.start(0)
			n.orphans[0] = &rigIO{} // this keeps the rig from granting the lock
			r.untilLockWanted(0)
			n.arb.Locked(r.now, 0, refused)
		}, refused, "slot 0 is locked on this host"},
		{"no slot is free", func(r *rig, n *rigNode) {
			r.startClaimed(0)
			r.forge(t, 0, foreign("n8"))
			r.crash(0)
		}, ErrTableFull, "--slots"},
		{"another boot goes on writing under this name", func(r *rig, n *rigNode) {
			r.startClaimed(0)
			r.reboot(0, false)
			r.start(0)
			r.idle(0, 2*time.Second)
			r.forge(t, 0, func(*Slot) {})
			r.idle(0, 2*time.Second)
		}, ErrRival, "two nodes use one name"},
		{"another agent writes the slot while it is claimed", func(r *rig, n *rigNode) {
			r.start(0)
			r.idle(0, 1500*time.Millisecond)
			r.forge(t, 0, foreign("n0"))
			r.idle(0, 2*time.Second)
		}, ErrRival, "slot 0 now holds a record"},
		{"another agent writes the slot later", func(r *rig, n *rigNode) {
			r.startClaimed(0)
			r.forge(t, 0, foreign("n0"))
			r.nodes[0].view = roster.SetOf(0) // so that it reads
			r.idle(0, 2*time.Second)
		}, ErrRival, "slot 0 now holds a record"},
	} {
		r := newcomer(t)
		n := r.nodes[0]
		c.run(r, n)
		err := n.arb.Failure()
		if !errors.Is(err, c.want) || err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		r.setView(0, 0)
		for range 30 {
			r.now = r.now.Add(500 * time.Millisecond)
			if out := r.step(0); len(out.Ops) > 0 || out.Lock >= 0 || out.Healthy || out.Split != tie.Unavailable || !strings.Contains(out.Why, c.text) {
				t.Fatalf("%s: goes on with %+v", c.name, out)
			}
		}
	}
}

// startClaimed starts the agent of a node and lets it claim its slot.
func (r *rig) startClaimed(i int) {
	r.start(i)
	r.run(5 * time.Second)
}

// Guard: claim, B9. A slot that cannot be read may be this node's, whatever its number.
func TestNoSlotIsChosenWhileOneCannotBeRead(t *testing.T) {
	for spoiled := range 2 {
		r := newRig(2, rigTiming())
		r.startAll()
		r.kill(0)
		r.spoil(spoiled)
		r.start(0)
		r.idle(0, 5*time.Second)
		if a := r.nodes[0].arb; a.claim != claimReading || a.slot != -1 {
			t.Fatalf("slot %d cannot be read: claim %d of slot %d", spoiled, a.claim, a.slot)
		}
		r.spoil(spoiled)
		r.idle(0, 5*time.Second)
		if a := r.nodes[0].arb; a.claim != claimActive || a.slot != 0 {
			t.Fatalf("claim %d of slot %d: %v", a.claim, a.slot, a.failure)
		}
	}
}

// The slot's contents under the lock count, not those by which it was chosen.
func TestSlotChangesBeforeItsLock(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *rig)
		claim  claimState
		slot   int
	}{
		{"nothing", func(*rig) {}, claimWriting, 0},
		{"it cannot be read", func(r *rig) { r.spoil(0) }, claimReading, 0},
		{"another node has taken it", func(r *rig) { r.putRecord(t, 0, "n8") }, claimLocking, 1},
		{"an earlier agent of this node has taken it", func(r *rig) { r.putRecord(t, 0, "n0") }, claimWatching, 0},
	} {
		r := newRig(2, rigTiming())
		n := r.nodes[0]
		r.start(0)
		n.orphans[0] = &rigIO{}
		r.untilLockWanted(0)
		c.change(r)
		n.orphans[0] = nil
		r.grantLock(n)
		r.step(0)
		if n.ios[0] != nil {
			r.complete(0)
		}
		if n.arb.claim != c.claim || n.arb.slot != c.slot {
			t.Errorf("%s: claim %d of slot %d, want %d of %d", c.name, n.arb.claim, n.arb.slot, c.claim, c.slot)
		}
	}
}

// putRecord writes a first record of a node into a slot, as another agent would.
func (r *rig) putRecord(t *testing.T, i int, name string) {
	t.Helper()
	s := Slot{Index: i, State: SlotActive, Sequence: 1, NodeName: name, Process: 77, RosterSize: 2}
	off := SlotOffset(i, 1)
	if err := EncodeSlot(r.image[off:off+BlockSize], r.sb.ID, &s, 1); err != nil {
		t.Fatal(err)
	}
}

// The late write of an earlier agent is not a rival: it is overwritten.
func TestLateWriteOfAPredecessorIsNoRival(t *testing.T) {
	r := duel(t)
	r.beginWrite(t, 0)
	r.reboot(0, true)
	r.start(0)
	r.beginWrite(t, 0)
	r.complete(0)
	r.landLate(0, wholeIO) // before the new agent reads back what it wrote
	if s := r.onLUN(t, 0); s.Process == r.nodes[0].process {
		t.Fatal("the late write does not hit the new agent's only record")
	}
	r.restart(0)
	if a := r.nodes[0].arb; a.claim != claimActive {
		t.Errorf("claim %d: %v", a.claim, a.failure)
	}
}

// Guard: claim. A record of another boot is watched for a time that only completed reads make up.
func TestWatchTime(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, 5 * time.Second} {
		r := newcomer(t)
		r.startClaimed(0)
		r.kill(0)
		r.forge(t, 0, func(s *Slot) { s.HeartbeatInterval = interval })
		r.reboot(0, false)
		r.start(0)
		a := r.nodes[0].arb
		for a.claim != claimWatching {
			r.idle(0, 100*time.Millisecond)
		}
		since := r.now
		for a.claim == claimWatching {
			r.idle(0, 100*time.Millisecond)
		}
		least := 2*interval + r.timing.IOTimeout
		if took := r.now.Sub(since); took < least || took > least+2*r.timing.Heartbeat {
			t.Errorf("heartbeat %v: watched for %v, want %v", interval, took, least)
		}
		e := &a.table.entries[0]
		watch := boottime.Instant(a.watchTime(e.record()))
		a.claim, a.claimSince, a.watched = claimWatching, a.table.start-watch+1, e.last
		a.table.end = a.table.start + watch
		if a.watch(r.now); a.claim != claimWatching {
			t.Errorf("heartbeat %v: the watch ends by the end of a read", interval)
		}
	}
}

// Guard: claim. The node relies on the slot after three reads that show its own record.
func TestSlotIsActiveAfterThreeReads(t *testing.T) {
	r := newcomer(t)
	r.start(0)
	n := r.nodes[0]
	reads := 0
	for n.arb.claim != claimActive {
		if reads > claimRounds {
			t.Fatalf("claim %d after %d reads", n.arb.claim, reads)
		}
		r.now = r.now.Add(100 * time.Millisecond)
		if r.step(0); n.ios[0] != nil {
			if n.ios[0].op.Kind == OpRead && !n.arb.lanes[0].asks && n.arb.claim == claimWriting {
				reads++
			}
			r.complete(0)
		}
	}
	if reads != claimRounds {
		t.Errorf("active after %d reads", reads)
	}
}

// Guard: B3. If an agent dies before its slot is active, its record on a device that is not read is older, for every
// reader, than the records of an agent whose slot is active.
func TestActiveSlotIsPastWhatCannotBeSeen(t *testing.T) {
	r := newcomer(t)
	r.start(0)
	n := r.nodes[0]
	began := uint64(0)
	for n.arb.claim != claimActive {
		if n.arb.claim == claimWriting && began == 0 {
			began = n.arb.seq
		}
		r.now = r.now.Add(100 * time.Millisecond)
		if r.step(0); n.ios[0] != nil {
			r.complete(0)
		}
	}
	// Each agent began from the record that the one before it had left there, and the last one from an older record.
	const before = 30
	if left := began + before*maxFirstDistance; n.arb.seq <= left {
		t.Errorf("active with sequence %d, and %d agents that were never seen may have left %d", n.arb.seq, before, left)
	}
}

// Guard: B3. A released slot keeps its part of the log: its next owner, another node, continues the record with all its
// promises, and reuses neither token nor sequence.
func TestFreedSlotIsContinued(t *testing.T) {
	r := newcomer(t)
	value, decided := &Grant{RosterEpoch: 1, Holders: []Holder{{Slot: 0, Token: Token{Nonce: 7, Counter: 3}}}}, &Grant{RosterEpoch: 1, Holders: []Holder{{Slot: 1, Token: Token{Nonce: 8, Counter: 1}}}}
	freed := Slot{
		State: SlotFree, Sequence: 1 << 40, NodeName: "gone", Process: 77, Late: 1, Statement: netgossip.Statement{Boot: 99, Token: Token{Nonce: 99, Counter: 5}},
		Ballot: Ballot{Instance: 6, MBal: 24, Bal: 22, Value: value, DecidedInstance: 5, Decided: decided},
	}
	for range copiesPerSlot {
		which := int(freed.Sequence % copiesPerSlot)
		off := SlotOffset(0, which)
		if err := EncodeSlot(r.image[off:off+BlockSize], r.sb.ID, &freed, which); err != nil {
			t.Fatal(err)
		}
		freed.Sequence++
	}
	r.start(0)
	r.oracle = newOracle(2, 1)
	r.oracle.started(r.nodes[0])
	r.oracle.started(r.nodes[1])
	a := r.nodes[0].arb
	for range 200 {
		if a.recorded != 0 {
			break
		}
		r.run(100 * time.Millisecond)
	}
	first := a.records[a.recorded%copiesPerSlot]
	b := first.Ballot
	if b.Instance != 6 || b.MBal != 24 || b.Bal != 22 || b.DecidedInstance != 5 || !b.Value.Equal(value) || !b.Decided.Equal(decided) {
		t.Errorf("the first record has the ballot %+v", b)
	}
	if first.Sequence <= freed.Sequence || first.NodeName != "n0" || first.Late != 1 || first.Statement.Token.Nonce != r.nodes[0].boot || !a.double {
		t.Errorf("the first record is %d of %q, late %b, token %v, both copies %v", first.Sequence, first.NodeName, first.Late, first.Statement.Token, a.double)
	}
}
