package diskquorum

import (
	"testing"
	"time"
)

// If reads on a path fail at once while writes succeed, reads must not be repeated without a pause: a member is
// missing, so every write is followed by a read.
func TestFailingReadsArePaced(t *testing.T) {
	for _, stop := range []bool{false, true} {
		r := startedRig(t, 3)
		n := r.nodes[0]
		r.setView(0, 0, 1)
		n.stop = stop
		reads := 0
		for end := r.now.Add(10 * r.timing.Heartbeat); r.now < end; r.now = r.now.Add(time.Millisecond) {
			for r.step(0); n.ios[0] != nil; r.step(0) {
				if n.ios[0].op.Kind == OpWrite {
					r.complete(0)
					continue
				}
				r.lose(0, false)
				if reads++; reads > 200 {
					t.Fatalf("stopping %v: %d reads after %v", stop, reads, r.now.Sub(end.Add(-10*r.timing.Heartbeat)))
				}
			}
		}
		if !stop && reads < 10 {
			t.Errorf("only %d reads in ten heartbeats: the path is given up", reads)
		}
	}
}
