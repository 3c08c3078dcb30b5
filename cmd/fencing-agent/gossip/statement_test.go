package gossip

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

func silent(stalled func() bool) *Networks {
	return New(Config{Config: config.Default(), Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Stalled: stalled})
}

func listing(t *testing.T, names ...string) *roster.Roster {
	t.Helper()
	var members []roster.Member
	for _, n := range names {
		members = append(members, roster.Member{Name: n})
	}
	r, err := roster.New(1, members, names[0])
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Guard: a statement whose maker is stalled is not an answer.
func TestNothingIsSaidWhileTheLoopIsStalled(t *testing.T) {
	stalled := false
	n := silent(func() bool { return stalled })
	if n.statement() != nil {
		t.Error("a statement before there is one")
	}
	st := &netgossip.Statement{Boot: 7}
	n.Say(st, listing(t, "n1", "n2"), Whenever)
	if n.statement() != st || n.Said() != st {
		t.Errorf("says %v, said %v", n.statement(), n.Said())
	}
	stalled = true
	if n.statement() != nil || n.Said() != st {
		t.Errorf("stalled: says %v, said %v", n.statement(), n.Said())
	}
}

// Guard: the sets of a statement are numbered by the roster with which it was made, even when a next statement with
// another roster already exists. A statement with a still older roster is no longer known, and yields nothing.
func TestSeesByTheRosterOfTheStatement(t *testing.T) {
	n := silent(func() bool { return false })
	first, second, third := &netgossip.Statement{Seen: roster.SetOf(0, 1)}, &netgossip.Statement{Seen: roster.SetOf(0, 1)}, &netgossip.Statement{}
	n.Say(first, listing(t, "n1", "n2", "n3"), Whenever)
	if !n.sees(first, "n2") || n.sees(first, "n3") || n.sees(second, "n2") {
		t.Error("after the first")
	}
	n.Say(second, listing(t, "n1", "n1b", "n2", "n3"), Whenever)
	if !n.sees(first, "n2") || n.sees(first, "n1b") || !n.sees(second, "n1b") || n.sees(second, "n2") || n.sees(second, "n9") {
		t.Error("after the second")
	}
	n.Say(third, listing(t, "n1", "n2"), Whenever)
	if n.sees(first, "n2") || !n.sees(second, "n1b") {
		t.Error("after the third")
	}
}

func TestTellsTheLatestRelay(t *testing.T) {
	n := silent(func() bool { return false })
	if n.relay() != (netgossip.Relay{}) {
		t.Error("something is told before there is anything")
	}
	for _, r := range []netgossip.Relay{{Instance: 1}, {Instance: 2}, {}} {
		if n.Tell(r); n.relay() != r {
			t.Errorf("told %v, tells %v", r, n.relay())
		}
	}
}
