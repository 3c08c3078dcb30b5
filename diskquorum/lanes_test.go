package diskquorum

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Guard: B8. A transfer lasts from the first start to the last end of its I/O, in any order.
func TestTransferLastsAsLongAsAllItsIO(t *testing.T) {
	tr := transfer{kind: OpRead}
	for _, c := range []struct {
		device                                 int
		started, ended, wantStarted, wantEnded boottime.Instant
	}{
		{device: 1, started: 20, ended: 50, wantStarted: 20, wantEnded: 50},
		{device: 0, started: 10, ended: 40, wantStarted: 10, wantEnded: 50},
		{device: 2, started: 30, ended: 60, wantStarted: 10, wantEnded: 60},
	} {
		tr.count(&Completion{Device: c.device, Started: c.started, Ended: c.ended})
		if tr.start != c.wantStarted || tr.end != c.wantEnded {
			t.Errorf("after device %d: %v to %v, want %v to %v", c.device, tr.start, tr.end, c.wantStarted, c.wantEnded)
		}
	}
}

// Guard: L6. A grant is valid for G from the first start of a record's write, on any device. Even if that write failed,
// or does not count, it may have landed: others may have seen the record from then on, and rely on its owner's deadline
// (L5).
func TestWriteBeginsWithItsFirstDevice(t *testing.T) {
	r := startedSet(t)
	n := r.nodes[0]
	r.settle([]int{0}, []int{1})
	r.hold(boottime.Never)
	r.run(r.timing.Heartbeat)
	r.now = max(r.now, n.arb.writeDue())
	n.arb.lanes[1].ours, n.arb.lanes[2].ours = 0, 0 // their superblocks are read first, and they answer late
	r.step(0)
	begun := r.now
	if n.ios[0] == nil || n.ios[0].op.Kind != OpWrite || n.ios[1] == nil || n.ios[1].op.Kind != OpRead {
		t.Fatalf("device 0 is not written first: %+v", n.ios)
	}
	r.loseOn(0, 0, true)
	r.now = r.now.Add(r.timing.Heartbeat)
	for range 2 {
		for d := 1; d < 3; d++ {
			r.completeOn(0, d)
		}
		r.step(0)
	}
	if !n.arb.lastWriteOK || n.arb.writeStart > begun {
		t.Errorf("landed %v, and begun %v after its first device", n.arb.lastWriteOK, n.arb.writeStart.Sub(begun))
	}
}
