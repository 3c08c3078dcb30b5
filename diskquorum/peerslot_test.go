package diskquorum

import (
	"testing"
	"time"
)

// Guard: three kinds of slots are distinguished: one that goes on changing, one that does not change, and one that is
// unknown at this moment because the node no longer reads, or the owner has stopped.
func TestPeerWrites(t *testing.T) {
	r := startedRig(t, 4)
	expect := func(when string, p int, moves, still bool) {
		t.Helper()
		a := r.nodes[0].arb
		if m, s := a.PeerWrites(r.now, r.nodes[0].roster.Name(p)); m != moves || s != still {
			t.Errorf("%s: moves %v, still %v; want %v, %v", when, m, s, moves, still)
		}
	}
	r.run(30 * time.Second)
	for p := 1; p < 4; p++ {
		expect("all are in view", p, true, false)
	}
	r.setView(0, 0)
	r.run(6 * time.Second)
	expect("it is missed", 1, true, false)
	if moves, still := r.nodes[0].arb.PeerWrites(r.now, "nobody"); moves || still {
		t.Error("nobody has a slot")
	}
	r.kill(1)
	r.nodes[2].stop = true
	r.run(30 * time.Second)
	expect("killed", 1, false, true)
	expect("stopped", 2, false, false)
	expect("alive", 3, true, false)
	r.hang(0, 0)
	r.run(30 * time.Second)
	expect("killed, and this node reads no more", 1, false, false)
	expect("alive, and this node reads no more", 3, false, false)
}

// Guard: the slot of a node is the lowest one that the latest read shows as its own, as a search of all slots would
// find.
func TestSlotIsFoundByItsOwner(t *testing.T) {
	p := newPhoto(t)
	put := func(slot int, sequence uint64, state SlotState, name string) {
		t.Helper()
		s := Slot{Index: slot, State: state, Sequence: sequence, NodeName: name, Process: 7, RosterSize: 3}
		s.Statement.Token = Token{Nonce: 9, Counter: 1}
		for which := range copiesPerSlot {
			s.Sequence = sequence + uint64(which)
			if err := EncodeSlot(p.block(superblockBlocks+copiesPerSlot*slot+int(s.Sequence%2)), sampleID, &s, int(s.Sequence%2)); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(when, name string, want int) {
		t.Helper()
		at := -1
		if i, ok := p.table.find(name); ok {
			at = i
		}
		if at != want {
			t.Errorf("%s: %s has slot %d, want %d", when, name, at, want)
		}
	}
	expect("nothing was read", "n1", -1)
	put(1, 2, SlotActive, "n1")
	put(2, 2, SlotActive, "n1")
	p.read(1, 2)
	expect("it has two", "n1", 1)
	expect("it has none", "n0", -1)
	put(0, 2, SlotActive, "n0")
	put(1, 4, SlotFree, "n1")
	p.read(3, 4)
	expect("the lower one is free", "n1", 2)
	expect("it has one by now", "n0", 0)
	put(2, 4, SlotActive, "n2")
	p.read(5, 6)
	expect("another one has its slot", "n1", -1)
	expect("it took that over", "n2", 2)
	p.block(superblockBlocks)[100]++
	p.read(7, 8)
	expect("it cannot be read", "n0", -1)
	p.table.entries[2] = entry{} // as forget does
	expect("it was forgotten", "n2", -1)
}
