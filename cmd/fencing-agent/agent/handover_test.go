package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/members"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// A node was away while the others changed to another list, and its own source shows nothing. The others hand it that
// list, and it takes part.
func TestMissedListIsHandedToAnAgent(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newFleet(t)
	three, four := []string{"n1", "n2", "n3"}, []string{"n1", "n2", "n3", "n4"}
	s := &showcase{f: f, shown: map[string][]string{}}
	f.source = func(node string) members.Source { return window{s, node} }
	for _, n := range four {
		f.configure(n, 0, four...)
	}
	s.show(three, three...)
	f.start(three...)
	f.await(0, three...)
	f.stop("n3", nil)

	s.show(four, "n1", "n2", "n4")
	f.start("n4")
	epoch := roster.EpochOf(1, f.roster(four...))
	deadline := time.After(fleetPatience)
	for st := f.status("n1"); st.Roster.Epoch != epoch || st.Roster.Change != ""; st = f.status("n1") {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Fatalf("the list of four is not in force without n3: %v", st.Roster)
		}
	}
	f.mark()
	s.show(nil, "n3")
	f.start("n3")
	f.await(epoch, four...)
	f.calm("n1", "n2", "n4")
	if log := f.nodes["n3"].logged(); !strings.Contains(log, "another node handed over a list") || strings.Contains(log, "source does not show; give both") {
		t.Errorf("n3 says:\n%s", log)
	}
}
