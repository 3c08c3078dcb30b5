package diskquorum

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// The tests of this file are about a LUN of three devices (B8): a majority decides, and one device alone must not.

// startedSet returns a rig of two nodes on three devices; both nodes hold their slots.
func startedSet(t *testing.T) *rig {
	t.Helper()
	r := newSetRig(2, 3, rigTiming())
	r.oracle.fatal = t.Fatalf
	if testing.Verbose() {
		r.logf = t.Logf
	}
	r.startAll()
	return r
}

// hang lets only the paths of a node to these devices hang.
func (r *rig) hang(i int, devices ...int) {
	n := r.nodes[i]
	n.hangs = 0
	for _, d := range devices {
		n.hangs.add(d)
	}
}

// under lists the devices on which an I/O of the kind is under way.
func (n *rigNode) under(kind OpKind) (s deviceSet) {
	for d, io := range n.ios {
		if io != nil && io.op.Kind == kind {
			s.add(d)
		}
	}
	return s
}

// until steps a node, at the times that it requests, until it begins a transfer of the kind. Earlier transfers are
// completed on all working paths.
func (r *rig) until(t *testing.T, i int, kind OpKind) {
	t.Helper()
	n := r.nodes[i]
	for range 100 {
		for d, io := range n.ios {
			if io != nil && !n.hangs.has(d) {
				r.completeOn(i, d)
			}
		}
		id := n.arb.cur.id
		r.step(i)
		if n.arb.cur.id != id && n.arb.cur.kind == kind {
			r.answer(i)
			return
		}
		r.now = max(r.now+1000, min(n.out.Wake, r.now.Add(100*time.Millisecond)))
	}
	t.Fatalf("n%d never begins %v: %s", i, kind, n.out.Why)
}

// answer ends the reads of the superblock that a node needs before it writes (B10).
func (r *rig) answer(i int) {
	n := r.nodes[i]
	for d, io := range n.ios {
		if n.arb.lanes[d].asks && io != nil && !n.hangs.has(d) {
			r.completeOn(i, d)
		}
	}
	r.step(i)
}

// settleSet lets both halves get ready, with all ballots held back.
func settleSet(r *rig) {
	r.settle([]int{0}, []int{1})
	r.hold(1 << 62)
}

// Verdicts with broken devices: if at least one half reaches a majority of the devices, exactly one half wins;
// otherwise none does.
func TestVerdictsWithBrokenDevices(t *testing.T) {
	for _, c := range []struct {
		name   string
		broken [2][]int // by node
		winner []int    // nodes that may win; empty: no node wins
	}{
		{"all devices work", [2][]int{}, []int{0, 1}},
		{"one device is away for all", [2][]int{{2}, {2}}, []int{0, 1}},
		{"each half misses another device", [2][]int{{0}, {2}}, []int{0, 1}},
		{"one half has one device left", [2][]int{{0}, {0, 1}}, []int{0}},
		{"one half has none", [2][]int{{0, 1, 2}, {1}}, []int{1}},
		{"nobody has two", [2][]int{{0, 1}, {1, 2}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := startedSet(t)
			for i, broken := range c.broken {
				r.hang(i, broken...)
			}
			for i := range r.nodes {
				r.setView(i, i)
			}
			r.run(8 * time.Second)
			var won []int
			for i, n := range r.nodes {
				if n.out.Split == tie.Won {
					won = append(won, i)
				}
				if healthy := len(c.broken[i]) < 2; n.out.Healthy != healthy {
					t.Errorf("n%d healthy %v, want %v: %s", i, n.out.Healthy, healthy, n.arb.trouble(r.now))
				}
			}
			if len(won) != min(1, len(c.winner)) || len(won) == 1 && c.winner[0] != won[0] && c.winner[len(c.winner)-1] != won[0] {
				t.Errorf("won by %v, want one of %v", won, c.winner)
			}
		})
	}
}

// An uncontested verdict takes at most two writes, two reads and one write that publishes it, on each device, even if
// one device hangs.
func TestVerdictTakesFiveIOsOnEachDevice(t *testing.T) {
	for _, broken := range [][]int{nil, {1}} {
		r := startedSet(t)
		r.hang(0, broken...)
		settleSet(r)
		n := r.nodes[0]
		for _, io := range n.ios {
			if io != nil && !n.hangs.has(io.op.Device) {
				t.Fatal("not at rest")
			}
		}
		n.arb.retryAt = 0
		var ios [3]int
		landed := func() bool {
			return n.arb.ballot.DecidedInstance == 1 && n.arb.lastWriteOK && !n.arb.dirty && !n.arb.inFlight
		}
		for k := 0; !landed() && k < 100; k++ {
			r.now = r.now.Add(10 * time.Millisecond)
			r.step(0)
			for d, io := range n.ios {
				if io != nil && !n.hangs.has(d) {
					ios[d]++
					r.completeOn(0, d)
				}
			}
		}
		if !landed() || max(ios[0], ios[1], ios[2]) > 5 || n.arb.lastEnd.ios != 4 {
			t.Errorf("broken %v: decided and published %v with %v I/Os, ballot of %d", broken, landed(), ios, n.arb.lastEnd.ios)
		}
	}
}

// Guard: B8. A write or a read is not complete on one device; it is complete on two, and the third delays nothing.
func TestMajorityMakesATransfer(t *testing.T) {
	r := startedSet(t)
	n := r.nodes[0]
	for _, kind := range []OpKind{OpWrite, OpRead} {
		r.setView(0, 0) // a member is missing, so each write is followed by a read
		r.until(t, 0, kind)
		id := n.arb.cur.id
		if n.under(kind) != 0b111 {
			t.Fatalf("kind %d is under way on %03b", kind, n.under(kind))
		}
		r.completeOn(0, 1)
		r.step(0)
		if !n.arb.inFlight || n.arb.cur.id != id {
			t.Fatalf("kind %d is done with one device", kind)
		}
		r.completeOn(0, 0)
		if n.arb.inFlight || n.arb.ioErr != nil {
			t.Fatalf("kind %d is not done with two devices: %v", kind, n.arb.ioErr)
		}
		r.completeOn(0, 2)
	}
}

// Guard: B8 (counterexample 18). If a write or a read of an earlier transfer ends now, it does not count for this
// transfer.
func TestLateCompletionCountsForNothing(t *testing.T) {
	for _, kind := range []OpKind{OpWrite, OpRead} {
		r := startedSet(t)
		n := r.nodes[0]
		r.setView(0, 0)
		r.until(t, 0, kind)
		r.hang(0, 2)
		r.until(t, 0, OpWrite)
		r.until(t, 0, kind)
		if old := n.ios[2]; old == nil || n.arb.cur.done != 0 {
			t.Fatalf("device 2 has %+v under way, transfer %+v", old, n.arb.cur)
		}
		r.completeOn(0, 2) // the old I/O
		r.completeOn(0, 0)
		if !n.arb.inFlight || n.arb.cur.done != 0b001 {
			t.Errorf("kind %d: done by %03b, under way %v", kind, n.arb.cur.done, n.arb.inFlight)
		}
		r.step(0)
		if n.ios[2] == nil {
			t.Errorf("kind %d: device 2 does not join in", kind)
		}
	}
}

// Guard: B8. One failing device does not fail the transfer, two do.
func TestOneDeviceFailsAlone(t *testing.T) {
	r := startedSet(t)
	n := r.nodes[0]
	r.setView(0, 0)
	for _, kind := range []OpKind{OpWrite, OpRead} {
		r.until(t, 0, kind)
		r.loseOn(0, 2, false)
		if !n.arb.inFlight {
			t.Fatal("over with the first failure")
		}
		r.completeOn(0, 0)
		r.completeOn(0, 1)
		if r.step(0); !n.out.Healthy || n.arb.ioErr != nil || n.arb.DeviceTrouble(2, r.now) == "" || n.arb.DeviceTrouble(1, r.now) != "" {
			t.Errorf("healthy %v, error %v, device 2 %q", n.out.Healthy, n.arb.ioErr, n.arb.DeviceTrouble(2, r.now))
		}
	}
	r.until(t, 0, OpWrite)
	r.loseOn(0, 2, false)
	r.loseOn(0, 0, false)
	if n.arb.inFlight || n.arb.ioErr == nil {
		t.Errorf("two failures: under way %v, error %v", n.arb.inFlight, n.arb.ioErr)
	}
}

// Guard: B8. One device hangs, another fails once while the third is busy with an old I/O: as soon as two of them work,
// the node goes on, although the hanging one never answers.
func TestFailedDeviceIsAskedAgainWhenAnotherHangs(t *testing.T) {
	for _, kind := range []OpKind{OpWrite, OpRead} {
		r := startedSet(t)
		n := r.nodes[0]
		r.setView(0, 0)
		r.hang(0, 2)
		r.until(t, 0, kind)
		r.until(t, 0, kind) // without device 2
		r.loseOn(0, 1, false)
		r.hang(0, 0)
		r.completeOn(0, 2)
		if r.step(0); !n.arb.inFlight {
			t.Fatal("over at once, although device 0 may answer in time")
		}
		id := n.arb.cur.id
		r.run(r.timing.IOTimeout + 2*r.timing.Heartbeat)
		if n.arb.cur.id == id || !n.out.Healthy {
			t.Errorf("kind %d: still waits for device 0: %+v, %s", kind, n.arb.cur, n.arb.Status(r.now).Trouble)
		}
	}
}

// Guard: B3. A write that failed on one device may land there late. So from then on a phase is written to both copies,
// and counts only on devices that have both.
func TestBothCopiesOnTheSameDevices(t *testing.T) {
	r := startedSet(t)
	n := r.nodes[0]
	r.until(t, 0, OpWrite)
	r.loseOn(0, 2, false)
	r.completeOn(0, 0)
	r.completeOn(0, 1)
	if !n.arb.double {
		t.Fatal("single copies although a write failed on device 2")
	}
	settleSet(r)
	n.arb.retryAt = 0
	for n.arb.prop.phase == phaseIdle {
		r.until(t, 0, OpWrite)
	}
	first := n.arb.seq
	r.hang(0, 1) // the first copy is under way there, and fails when the second is written
	r.completeOn(0, 0)
	r.completeOn(0, 2)
	r.step(0)
	if n.arb.cur.also != first || n.arb.seq != first+1 {
		t.Fatalf("second copy: sequence %d with %d, first %d", n.arb.seq, n.arb.cur.also, first)
	}
	r.completeOn(0, 0)
	r.loseOn(0, 1, false)
	r.step(0)
	r.completeOn(0, 1) // the second copy, which must not count
	if !n.arb.cur.failed.has(1) || n.arb.cur.done != 0b001 || !n.arb.inFlight {
		t.Fatalf("device 1 lacks the first copy: %+v", n.arb.cur)
	}
	r.completeOn(0, 2)
	if n.arb.inFlight || n.arb.cur.done != 0b101 {
		t.Fatalf("under way %v, done by %03b", n.arb.inFlight, n.arb.cur.done)
	}
}

// Guard: B3. A device that was busy with another I/O during the first copy gets both copies.
func TestBusyDeviceIsGivenBothCopies(t *testing.T) {
	r := startedSet(t)
	n := r.nodes[0]
	n.arb.double = true
	settleSet(r)
	r.setView(0, 0)
	r.until(t, 0, OpRead)
	r.hang(0, 1)
	n.arb.retryAt = 0
	for n.arb.prop.phase == phaseIdle {
		r.until(t, 0, OpWrite)
	}
	first := n.arb.seq
	r.completeOn(0, 0)
	r.completeOn(0, 2)
	r.step(0)
	r.completeOn(0, 1) // the read
	r.completeOn(0, 0)
	r.step(0)
	for _, want := range []uint64{first, first + 1} {
		if io := n.ios[1]; io == nil || io.op.Kind != OpWrite || recordSequence(io.data) != want || !n.arb.inFlight {
			t.Fatalf("device 1 is not given record %d: %+v, under way %v", want, io, n.arb.inFlight)
		}
		r.completeOn(0, 1)
		r.step(0)
	}
	if n.arb.cur.kind != OpRead {
		t.Errorf("not done with devices 0 and 1: %+v", n.arb.cur)
	}
}

// A device that missed a record gets it as soon as it answers, so that more than two devices have it.
func TestDeviceCatchesUp(t *testing.T) {
	r := startedSet(t)
	n := r.nodes[0]
	r.until(t, 0, OpWrite)
	r.hang(0, 2)
	r.run(3 * time.Second)
	r.hang(0)
	r.completeOn(0, 2)
	r.step(0)
	r.answer(0)
	if io := n.ios[2]; io == nil || io.op.Kind != OpWrite || recordSequence(io.data) != n.arb.recorded {
		t.Fatalf("device 2 is not given the latest record, %d", n.arb.recorded)
	}
	r.loseOn(0, 2, false)
	if r.step(0); n.ios[2] != nil {
		t.Error("the same record is tried again without a pause")
	}
}

// Guard: the lock. A slot is written only if its lock was granted on a majority of the devices, and given up if a
// majority refuses it.
func TestLockOnAMajority(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []error
		want    claimState
	}{
		{"one gives it", []error{nil}, claimLocking},
		{"two give it", []error{nil, nil}, claimRereading},
		{"one refuses", []error{errRigIO}, claimLocking},
		{"one refuses, two give it", []error{errRigIO, nil, nil}, claimRereading},
		{"two refuse", []error{nil, errRigIO, errRigIO}, claimFailed},
	} {
		r := newSetRig(2, 3, rigTiming())
		r.start(0)
		n := r.nodes[0]
		for d := range n.orphans {
			n.orphans[d] = &rigIO{}
		}
		for !n.wantLock {
			r.run(100 * time.Millisecond)
		}
		for d, err := range c.answers {
			n.arb.Locked(r.now, d, err)
		}
		if n.arb.claim != c.want {
			t.Errorf("%s: claim %d, want %d", c.name, n.arb.claim, c.want)
		}
	}
}

// Guard: L1. A later token of the previous agent may be on the device that was not read.
func TestTokenPassesWhatCannotBeSeen(t *testing.T) {
	for _, c := range []struct {
		hangs []int
		least uint32
		most  uint32
	}{{nil, 1, 2}, {[]int{2}, unseenTokens, unseenTokens + strayTokens}} {
		r := startedSet(t)
		before := r.nodes[0].out.Token
		r.kill(0)
		clear(r.nodes[0].orphans)
		r.hang(0, c.hangs...)
		r.start(0)
		r.run(5 * time.Second)
		if now := r.nodes[0].out.Token; now.Nonce != before.Nonce || now.Counter < before.Counter+c.least || now.Counter > before.Counter+c.most {
			t.Errorf("devices %v hang: token %v after %v", c.hangs, now, before)
		}
	}
}

// Guard: claim. A foreign record is noticed on any device, and this node then writes no more, not even to a device that
// lags behind.
func TestForeignWriterOnOneDevice(t *testing.T) {
	for d := range 3 {
		r := startedSet(t)
		n := r.nodes[0]
		r.hang(0, (d+1)%3)
		r.setView(0, 0)
		r.run(3 * time.Second)
		r.forgeOn(t, d, 0, func(s *Slot) { s.Process, s.Sequence = 99, n.arb.seq+1000 })
		r.run(3 * time.Second)
		if n.arb.claim != claimFailed || !errors.Is(n.arb.Failure(), ErrRival) {
			t.Fatalf("device %d: %v", d, n.arb.Failure())
		}
		r.hang(0)
		if n.ios[(d+1)%3] != nil {
			r.completeOn(0, (d+1)%3)
		}
		if r.step(0); len(n.out.Ops) > 0 {
			t.Errorf("device %d: goes on with %+v", d, n.out.Ops)
		}
	}
}

// forgeOn writes a record that its owner never wrote to slot i of one device.
func (r *rig) forgeOn(t *testing.T, d, i int, change func(*Slot)) {
	t.Helper()
	first, sb := r.image, r.sb
	r.image, r.sb = r.images[d], r.sbs[d]
	defer func() { r.image, r.sb = first, sb }()
	s := r.onLUN(t, i)
	change(s)
	which := int(s.Sequence % copiesPerSlot)
	off := SlotOffset(i, which)
	if err := EncodeSlot(r.image[off:off+BlockSize], r.sb.ID, s, which); err != nil {
		t.Fatal(err)
	}
}

// Guard: B5. If a device acknowledged this node's record but does not show it, the read does not count, whatever the
// other devices show.
func TestDeviceThatForgetsAWrite(t *testing.T) {
	r := startedSet(t)
	n := r.nodes[0]
	r.setView(0, 0)
	r.until(t, 0, OpWrite)
	n.arb.lanes[1].failed[n.arb.recorded%copiesPerSlot] = r.now // otherwise the device would count as gone back (B11)
	was := append([]byte(nil), r.images[1]...)
	r.completeOn(0, 0)
	r.completeOn(0, 1)
	copy(r.images[1], was)
	r.completeOn(0, 2)
	r.until(t, 0, OpRead)
	r.completeOn(0, 0)
	r.completeOn(0, 1)
	if n.arb.readBack || n.arb.mayPropose() {
		t.Error("this node's slot counts as read back")
	}
	if out := r.step(0); out.Healthy || !strings.Contains(n.arb.trouble(r.now), "cache") {
		t.Errorf("healthy %v: %s", out.Healthy, n.arb.trouble(r.now))
	}
}

// Guard: B9. If a slot is unknown after the reads of two devices, the read waits for the third one, but only as long as
// an I/O may take.
func TestReadWaitsForTheDeviceThatCanTell(t *testing.T) {
	for _, third := range []bool{true, false} {
		r := startedSet(t)
		n := r.nodes[0]
		r.images[1][SlotOffset(1, 0)+700] ^= 1
		r.setView(0, 0)
		r.until(t, 0, OpRead)
		r.completeOn(0, 0)
		r.completeOn(0, 1)
		if r.step(0); !n.arb.inFlight {
			t.Fatal("the read is done although slot 1 is not known")
		}
		if third {
			r.completeOn(0, 2)
		} else {
			r.now = r.now.Add(r.timing.IOTimeout + 1)
			r.step(0)
		}
		if n.arb.cur.kind == OpRead && n.arb.inFlight || n.arb.table.anyUnknown() == third {
			t.Errorf("third device %v: under way %v, unknown %v", third, n.arb.inFlight, n.arb.table.anyUnknown())
		}
	}
}
