package diskquorum

import (
	"testing"
	"time"
)

// Guard: a slot that goes on changing is told from one that stands still, and from one of which this node knows nothing at
// this moment: it reads no more, or the owner has stopped.
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
