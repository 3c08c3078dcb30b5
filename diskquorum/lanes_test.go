package diskquorum

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Guard: B8. A transfer lasts from the first start to the last end of its I/O, in whichever
// order they come.
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
