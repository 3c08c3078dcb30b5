package diskquorum

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// restore restores the earlier slots of a device.
func (r *rig) restore(d int, slots []byte) {
	copy(r.images[d][OwnSize:], slots[OwnSize:])
	r.trace("device %d goes back", d)
}

// Guard: B11. The LUN goes back, or its slots are zeroed, in the middle of arbitration. A node that has read or written
// newer records no longer takes part in the tie, not even after a restart of its agent, until it counts a majority and
// the group writes the device again.
func TestNobodyDecidesOnALUNThatWentBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		older time.Duration
		wrote bool // node 0 writes once before it reads the LUN
		again bool // the agent restarts
	}{
		{"30 s", 30 * time.Second, false, false},
		{"30 s, and one write", 30 * time.Second, true, false},
		{"3 s", 3 * time.Second, false, false},
		{"3 s, and one write", 3 * time.Second, true, false},
		{"zeroed", 0, false, false},
		{"the agent restarts", 30 * time.Second, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := startedRig(t, 2)
			was := slices.Clone(r.images[0])
			if c.older == 0 {
				clear(was)
			}
			r.run(c.older)
			r.settle([]int{0}, []int{1})
			r.hold(1 << 62)
			r.kill(1) // it goes on elsewhere, on the real LUN
			n := r.nodes[0]
			if c.wrote {
				r.until(t, 0, OpWrite)
			}
			r.restore(0, was)
			if c.wrote {
				r.completeOn(0, 0)
			}
			r.hold(0)
			r.run(4 * time.Second)
			if c.again {
				r.kill(0)
				r.start(0)
			}
			for end := r.now.Add(100 * time.Second); r.now < end; {
				if r.run(100 * time.Millisecond); n.out.Split == tie.Won || n.arb.prop.phase != phaseIdle {
					t.Fatalf("takes part: %v, %v before the end", n.out.Split, end.Sub(r.now))
				}
			}
			if trouble := n.arb.trouble(r.now); !c.again && !strings.Contains(trouble, "the LUN went back") {
				t.Errorf("trouble %q", trouble)
			}
			r.start(1)
			for i := range r.nodes {
				r.setView(i, 0, 1)
			}
			r.run(20 * time.Second)
			if !n.out.Healthy {
				t.Errorf("with a majority: %s", n.arb.trouble(r.now))
			}
		})
	}
}

// Guard: B11. A LUN that went back does not renew a grant: another half may hold the next one.
func TestGrantEndsWhenTheLUNGoesBack(t *testing.T) {
	r := startedRig(t, 2)
	was := slices.Clone(r.images[0])
	r.run(10 * time.Second)
	r.kill(1)
	r.setView(0, 0)
	r.run(30 * time.Second)
	n := r.nodes[0]
	if n.out.Split != tie.Won {
		t.Fatalf("%v: %s", n.out.Split, n.out.Why)
	}
	r.restore(0, was)
	if r.run(r.timing.Grant + time.Second); n.out.Split == tie.Won || n.arb.trouble(r.now) != errBack.Error() {
		t.Errorf("%v, %q", n.out.Split, n.arb.trouble(r.now))
	}
}

// Guard: B11, B8. If one of three devices went back, it does not count, but the others do.
func TestDeviceOfASetGoesBack(t *testing.T) {
	r := startedSet(t)
	was := slices.Clone(r.images[1])
	r.run(10 * time.Second)
	r.setView(0, 0)
	r.setView(1, 1)
	r.restore(1, was)
	r.run(8 * time.Second)
	won := 0
	for _, n := range r.nodes {
		if n.out.Split == tie.Won {
			won++
		}
		if !strings.Contains(n.arb.DeviceTrouble(1, r.now), "the LUN went back") || n.arb.DeviceTrouble(0, r.now) != "" {
			t.Errorf("n%d: device 1 %q, device 0 %q", n.index, n.arb.DeviceTrouble(1, r.now), n.arb.DeviceTrouble(0, r.now))
		}
	}
	if won != 1 {
		t.Errorf("%d have won", won)
	}
}

// Guard: B11, B3. A failed write that lands late may overwrite one copy, or both if the slot states failed writes: this
// does not count as going back.
func TestLateWritesAreNoGoingBack(t *testing.T) {
	r := startedRig(t, 2)
	for range 2 {
		r.until(t, 0, OpWrite)
		r.lose(0, true)
		r.until(t, 0, OpWrite)
		r.complete(0)
		r.until(t, 0, OpWrite)
		r.complete(0)
	}
	r.setView(0, 0)
	r.setView(1, 1)
	r.run(3 * time.Second)
	for len(r.late) > 0 {
		r.landLate(0, wholeIO)
		r.run(3 * time.Second)
		for _, n := range r.nodes {
			if n.arb.lanes[0].back {
				t.Errorf("n%d calls a late write a LUN that went back", n.index)
			}
		}
	}
}

// Guard: B11. If a copy of this node's slot is unknown in a read, this does not count as going back, even if a write
// has landed in it since the last read that showed it. Here a late write of an agent of the previous boot tears it.
func TestTornCopyIsNoGoingBack(t *testing.T) {
	r := startedRig(t, 2)
	r.nextWrite(t, 0)
	r.kill(0)
	r.reboot(0, true)
	r.start(0)
	r.run(20 * time.Second)
	n := r.nodes[0]
	if n.arb.claim != claimActive || len(r.late) != 1 {
		t.Fatalf("claim %d, %d late writes", n.arb.claim, len(r.late))
	}
	for r.late[0].op.Offset != SlotOffset(0, int(r.nodes[0].arb.recorded%copiesPerSlot)) {
		r.run(r.timing.Heartbeat)
	}
	r.landLate(0, 1)
	r.setView(0, 0)
	r.until(t, 0, OpRead)
	if r.complete(0); n.arb.lanes[0].back {
		t.Error("a torn copy is called a LUN that went back")
	}
}

// Guard: B11, B8. When a set of three counts again, a node reads the others' new records there, even those of an agent
// that was started later on the older state, with sequences below those that were read before.
func TestSlotThatGoesOnFromAnOlderStateIsRead(t *testing.T) {
	r := newSetRig(3, 3, rigTiming())
	r.oracle.fatal = t.Fatalf
	r.startAll()
	was := [][]byte{slices.Clone(r.images[0]), slices.Clone(r.images[1]), slices.Clone(r.images[2])}
	for range 2 { // its sequence skips numbers each time
		r.kill(1)
		r.start(1)
		r.run(20 * time.Second)
	}
	r.kill(1)
	for d := range r.images {
		r.restore(d, was[d])
	}
	n := r.nodes[0]
	for end := r.now.Add(time.Minute); !n.arb.stranded() && r.now < end; r.run(100 * time.Millisecond) {
	}
	for end := r.now.Add(time.Minute); n.arb.stranded() && r.now < end; r.run(time.Second) {
	}
	r.start(1)
	r.run(30 * time.Second)
	if e := &n.arb.table.entries[1]; e.record().Process != r.nodes[1].process || !n.out.Healthy {
		t.Errorf("%s: slot 1 is read as that of process %x, and process %x writes it", n.arb.trouble(r.now), e.record().Process, r.nodes[1].process)
	}
}

// Guard: B11. An agent that is starting may also have read newer records; then it takes no part in the tie after it has
// claimed its slot.
func TestLUNGoesBackUnderAnAgentThatStarts(t *testing.T) {
	r := startedRig(t, 2)
	was := slices.Clone(r.images[0])
	r.run(30 * time.Second)
	r.kill(1) // it goes on elsewhere, on the real LUN
	r.kill(0)
	r.start(0)
	n := r.nodes[0]
	r.setView(0, 0)
	counter := r.onLUN(t, 0).Statement.Token.Counter
	for n.arb.table.reads == 0 {
		if r.step(0); n.ios[0] != nil {
			r.complete(0)
		}
	}
	if n.arb.claim == claimActive {
		t.Fatal("it has claimed its slot")
	}
	r.restore(0, was)
	for end := r.now.Add(5 * time.Minute); r.now < end; {
		if r.run(100 * time.Millisecond); n.out.Split == tie.Won || n.arb.prop.phase != phaseIdle {
			t.Fatalf("takes part: %v, %v before the end", n.out.Split, end.Sub(r.now))
		}
	}
	if n.arb.claim != claimActive || n.arb.trouble(r.now) != errBack.Error() {
		t.Errorf("claim %d, %q", n.arb.claim, n.arb.trouble(r.now))
	}
	if n.arb.token.Counter < counter+unseenTokens {
		t.Errorf("token %v: one that the LUN does not show any more may have been granted", n.arb.token)
	}
}

// Guard: B11, B8. A write that hung, and lands on a device after the device has gone back, does not show that an agent
// went on from the older state: the owner's later records are still on at least one device, and are not forgotten. The
// write is from this agent, or from the previous boot.
func TestLateWriteDoesNotMakeAReaderForget(t *testing.T) {
	for _, reboots := range []bool{false, true} {
		r := newSetRig(3, 3, rigTiming())
		r.oracle.fatal = t.Fatalf
		r.startAll()
		was := [][]byte{slices.Clone(r.images[0]), slices.Clone(r.images[1]), slices.Clone(r.images[2])}
		r.run(20 * time.Second)
		n, owner := r.nodes[0], r.nodes[1]
		r.until(t, 1, OpWrite)
		hung := owner.ios[0]
		if r.hang(1, 0); reboots {
			r.reboot(1, true)
			r.start(1)
		}
		r.run(20 * time.Second)
		r.hang(1, 0, 2) // the latest record is only on device 1
		r.run(20 * time.Second)
		goBack := []int{0}
		if !reboots {
			goBack = []int{0, 1} // from now on it is on no device
		}
		for _, d := range goBack {
			r.restore(d, was[d])
		}
		r.hang(1, 0, 1, 2)
		back := func() bool { return n.arb.lanes[0].back }
		for end := r.now.Add(time.Minute); !back() && r.now < end; r.run(100 * time.Millisecond) {
		}
		noticed := back()
		for end := r.now.Add(time.Minute); n.arb.gone() && r.now < end; r.run(time.Second) {
		}
		known := n.arb.table.entries[1].last.sequence
		r.progress(hung, wholeIO)
		if !reboots {
			r.hang(0, 2)
		} else {
			r.hang(0, 1)
		}
		r.run(25 * time.Second)
		p := &n.arb.table.devices[0].slots[1].past
		if now := n.arb.table.entries[1].last.sequence; !noticed || n.arb.gone() || p.newest() <= p.base || p.newest() >= known || now < known {
			t.Errorf("reboots %v: noticed %v, record %d was known, device 0 shows %d after %d, and %d is known", reboots, noticed, known, p.newest(), p.base, now)
		}
	}
}

// Guard: B11. A slot's statement of failed writes explains an older state as long as a copy has the statement, or that
// copy is unknown in a read, but not after it has been overwritten. The records of an older state do not count as
// written since.
func TestWordOfFailedWritesEndsWithItsRecord(t *testing.T) {
	type read struct {
		a, b uint64 // sequences, 0: torn
		late bool   // copy b states failed writes
	}
	for _, c := range []struct {
		reads  []read
		older  bool
		writes bool // the owner is known to write this device since it went back, at sequence 5
	}{
		{[]read{{12, 13, false}, {8, 9, false}}, true, false},
		{[]read{{12, 13, true}, {8, 9, false}}, false, false},
		{[]read{{12, 13, true}, {0, 0, false}, {8, 9, false}}, false, false},
		{[]read{{12, 13, true}, {14, 13, true}, {14, 15, false}, {8, 9, false}}, true, false},
		{[]read{{12, 13, true}, {8, 9, false}, {10, 9, false}}, false, true},
		{[]read{{12, 13, true}, {14, 13, true}}, false, true},
	} {
		p := past{base: 5}
		for _, r := range c.reads {
			var errs [copiesPerSlot]error
			var copies [copiesPerSlot]Slot
			for which, s := range []uint64{r.a, r.b} {
				if copies[which].Sequence = s; s == 0 {
					errs[which] = ErrTorn
				}
			}
			if r.late {
				copies[1].Late = 1
			}
			p.follow(&errs, &copies)
		}
		if writes := p.newest() > p.base; p.older != c.older || writes != c.writes {
			t.Errorf("%+v: older %v, writes %v", c.reads, p.older, writes)
		}
	}
}
