package diskquorum

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// runReadOnly advances the clock while no device accepts writes, like a LUN that was mapped read-only.
func (r *rig) runReadOnly(d time.Duration) {
	for end := r.now.Add(d); r.now < end; {
		r.now = r.now.Add(r.timing.Heartbeat / 10)
		for i, n := range r.nodes {
			for r.step(i); n.busy(); r.step(i) {
				r.now = r.now.Add(time.Millisecond)
				for at, io := range n.ios {
					if io != nil && io.op.Kind == OpWrite {
						r.loseOn(i, at, false)
					} else if io != nil {
						r.completeOn(i, at)
					}
				}
			}
		}
	}
}

// A LUN that accepts no writes any more is still the same LUN. It gives no grants, a grant ends after G, and it is used
// again when it accepts writes. No write lands late, so it does not count as gone back.
func TestReadOnlyLUN(t *testing.T) {
	for _, devices := range []int{1, 3} {
		r := newSetRig(2, devices, rigTiming())
		r.oracle.fatal = t.Fatalf
		r.startAll()
		r.settle([]int{0}, []int{1})
		r.run(5 * time.Second)
		if r.nodes[0].out.Split != tie.Won && r.nodes[1].out.Split != tie.Won {
			t.Fatal("nobody has won")
		}
		was := slices.Clone(r.images[0])
		r.runReadOnly(r.timing.Grant + 3*time.Second)
		for i, n := range r.nodes {
			if n.out.Split == tie.Won || n.out.Healthy || n.arb.Foreign(0) != nil || n.arb.lanes[0].back || n.arb.DeviceTrouble(0, r.now) == "" {
				t.Errorf("%d devices, n%d: %v, healthy %v, foreign %v, back %v", devices, i, n.out.Split, n.out.Healthy, n.arb.Foreign(0), n.arb.lanes[0].back)
			}
		}
		if !slices.Equal(was, r.images[0]) {
			t.Error("written")
		}
		for i := range r.nodes {
			r.setView(i, 0, 1)
		}
		r.run(12 * time.Second)
		for i, n := range r.nodes {
			if !n.out.Healthy {
				t.Errorf("%d devices, n%d after it: %s", devices, i, n.arb.trouble(r.now))
			}
		}
	}
}

// Two devices of a set are exchanged while agents run: two of three are not the expected devices, so nothing is decided
// and neither is written. When the exchange is undone, they are used again.
func TestTwoDevicesAreExchanged(t *testing.T) {
	r := startedSet(t)
	l := lies{others: make([][]byte, len(r.images))}
	l.turn(r)
	r.run(2 * time.Second)
	seen := [][]byte{slices.Clone(r.images[0]), slices.Clone(r.images[1])}
	r.settle([]int{0}, []int{1})
	r.run(8 * time.Second)
	for i, n := range r.nodes {
		if n.out.Healthy || n.out.Split == tie.Won || n.arb.Foreign(0) == nil || n.arb.Foreign(1) == nil || n.arb.Foreign(2) != nil {
			t.Errorf("n%d: healthy %v, %v, %v, %v, %v", i, n.out.Healthy, n.out.Split, n.arb.Foreign(0), n.arb.Foreign(1), n.arb.Foreign(2))
		}
	}
	if !slices.Equal(seen[0], r.images[0]) || !slices.Equal(seen[1], r.images[1]) {
		t.Error("written")
	}
	l.turn(r)
	for i := range r.nodes {
		r.setView(i, 0, 1)
	}
	r.run(15 * time.Second)
	for i, n := range r.nodes {
		if !n.out.Healthy || n.arb.Foreign(0) != nil || n.arb.Foreign(1) != nil {
			t.Errorf("n%d after it: %s, %v, %v", i, n.arb.trouble(r.now), n.arb.Foreign(0), n.arb.Foreign(1))
		}
	}
}

// Guard: B11. A node has written both copies of its slot on a LUN that went back before it reads the LUN: the other
// nodes' slots show that it went back.
func TestSlotsOfOthersTellThatTheLUNWentBack(t *testing.T) {
	r := startedRig(t, 2)
	was := slices.Clone(r.images[0])
	r.run(30 * time.Second)
	r.kill(1)
	r.hold(1 << 62)
	copy(was[SlotOffset(0, 0):], r.images[0][SlotOffset(0, 0):SlotOffset(1, 0)])
	r.restore(0, was)
	r.setView(0, 0)
	r.hold(0)
	if r.run(3 * time.Second); !r.nodes[0].arb.lanes[0].back {
		t.Error("not noticed")
	}
}
