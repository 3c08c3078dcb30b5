package netgossip

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Guard: answers overtake each other on two networks. A node's earlier statement must not replace its later one:
// otherwise a new group would briefly lose its quorum.
func TestStatementsThatOvertakeEachOther(t *testing.T) {
	m := testMerger(t, 3, 2, Any())
	say := func(network int, sentAt, stated int64, boot uint64, sees bool) {
		st := *agrees(m)
		st.Boot, st.Stated = boot, boottime.Instant(stated)
		if !sees {
			st.Seen.Remove(m.roster.Self)
		}
		m.Answered(Answer{Network: network, Peer: 1, SentAt: boottime.Instant(sentAt), Statement: &st})
	}
	for _, step := range []struct {
		name         string
		network      int
		sent, stated int64
		boot         uint64
		sees, want   bool
	}{
		{"it sees us", 0, 100, 20, 7, true, true},
		{"what it said before, by another network", 1, 101, 19, 7, false, true},
		{"what it says later", 1, 102, 21, 7, false, false},
		{"what it said before, again", 0, 103, 20, 7, true, false},
		{"it does not tell when", 0, 104, 0, 7, true, true},
		{"another boot, whose clock began again", 0, 105, 3, 8, true, true},
		{"and goes on", 0, 106, 4, 8, false, false},
	} {
		say(step.network, step.sent, step.stated, step.boot, step.sees)
		if v := m.Evaluate(boottime.Instant(107), 2); v.Counted.Has(1) != step.want {
			t.Errorf("%s: counted %v", step.name, v.Counted.Has(1))
		}
	}
}
