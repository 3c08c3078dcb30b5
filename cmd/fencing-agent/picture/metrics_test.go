package picture

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// The metrics show the sums that the peers receive, and the largest of them.
func TestBudgetMetrics(t *testing.T) {
	c := config.Default()
	m := NewMetrics(prometheus.NewRegistry(), c, "test")
	b := c.Budget(40 * time.Second)
	m.Show(group(t, c, b, 0))
	for term, want := range map[string]time.Duration{
		"d_max": 4 * time.Second, "arbitration": 10 * time.Second, "watchdog": 40 * time.Second, "release": 40 * time.Second,
		"horizon_majority": b.Majority(), "horizon_tie": b.Tie(),
	} {
		if got := testutil.ToFloat64(m.budget.WithLabelValues(term)); got != want.Seconds() {
			t.Errorf("%s: %v, want %v", term, got, want.Seconds())
		}
	}
	for _, peer := range []time.Duration{0, time.Second, time.Hour} {
		m.Show(group(t, c, b, peer))
		if got, want := testutil.ToFloat64(m.furthest), max(b.Horizon(), peer).Seconds(); got != want {
			t.Errorf("longest with %v at a peer: %v, want %v", peer, got, want)
		}
	}
}

// group holds the facts of the first of four nodes: the second is reachable, the third was fenced, the fourth restarts.
func group(t *testing.T, c *config.Config, b watchdog.Budget, horizon time.Duration) *Facts {
	t.Helper()
	var list []roster.Member
	for _, name := range []string{"n1", "n2", "n3", "n4"} {
		list = append(list, roster.Member{Name: name, Addresses: map[string]string{"a": "10.0.0." + name[1:]}})
	}
	r, err := roster.Of(3, list, "n1")
	if err != nil {
		t.Fatal(err)
	}
	f := &Facts{
		Now: boottime.Instant(time.Minute), Wall: time.Unix(1000, 0), Config: c, Roster: r, Expected: roster.FullSet(4), Lists: Lists{Base: r.Ref()},
		View: netgossip.View{Seen: roster.SetOf(1), Counted: roster.SetOf(0, 1)}, Fenced: roster.SetOf(2), Restarting: roster.SetOf(3),
		Nodes: make([]Node, 4), Budget: b,
	}
	f.Verdict = Verdict{
		Decision: watchdog.Decision{Action: watchdog.Feed, Reason: watchdog.ReasonNetworkQuorum, Quorum: true},
		Tally:    Tally{Reachable: 2, Counted: 2, Expected: 4, Quorum: 3},
	}
	f.Nodes[1] = Node{Anchor: f.Now, Said: &netgossip.Statement{
		RosterEpoch: r.Epoch, RosterDigest: r.Digest, Seen: roster.SetOf(0), Feeding: true, Guard: netgossip.Guard{Fences: true, Horizon: horizon},
	}}
	f.Networks = []Network{{Links: make([]Link, 4)}}
	f.Networks[0].Name, f.Networks[0].Links[1].Reachable = "a", true
	return f
}

// A gauge follows the facts in both directions.
func TestGaugesFollowTheFacts(t *testing.T) {
	c := config.Default()
	m := NewMetrics(prometheus.NewRegistry(), c, "test")
	f := group(t, c, c.Budget(10*time.Second), 0)
	m.Show(f)
	for state, want := range map[string]float64{"reachable": 2, "fenced": 1, "restarting": 1, "unreachable": 0} {
		if got := testutil.ToFloat64(m.members.WithLabelValues(state)); got != want {
			t.Errorf("%v %s, want %v", got, state, want)
		}
	}
	verdict := func() [3]float64 {
		return [3]float64{
			testutil.ToFloat64(m.hasQuorum), testutil.ToFloat64(m.verdict.WithLabelValues(watchdog.ReasonNetworkQuorum.String())),
			testutil.ToFloat64(m.verdict.WithLabelValues(watchdog.ReasonSplitLost.String())),
		}
	}
	if got := verdict(); got != [3]float64{1, 1, 0} || !f.Ready() || testutil.ToFloat64(m.network.WithLabelValues("a")) != 1 {
		t.Errorf("with a majority: %v, ready %v", got, f.Ready())
	}
	f.Verdict.Decision = watchdog.Decision{Action: watchdog.Starve, Reason: watchdog.ReasonSplitLost}
	m.Show(f)
	if got := verdict(); got != [3]float64{0, 0, 1} || f.Ready() {
		t.Errorf("without: %v, ready %v", got, f.Ready())
	}
}

// The end of a tie is counted once, with the time since it began, if the beginning was seen.
func TestTiesAreCountedOnce(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry(), config.Default(), "test")
	for i, r := range []watchdog.Reason{
		watchdog.ReasonSplitPending, watchdog.ReasonSplitLUN, watchdog.ReasonSplitWon, watchdog.ReasonNetworkQuorum, watchdog.ReasonSplitLost,
		watchdog.ReasonSplitPending, watchdog.ReasonNetworkQuorum,
	} {
		m.Tie(boottime.Instant(time.Duration(i+1)*time.Second), r, "lun")
	}
	for outcome, want := range map[string]float64{"won": 1, "lost": 1, "undecided": 0} {
		if got := testutil.ToFloat64(m.tieBreaks.WithLabelValues("lun", outcome)); got != want {
			t.Errorf("%v ties %s, want %v", got, outcome, want)
		}
	}
	if m.tieBegan != 0 {
		t.Errorf("a tie that a majority has ended goes on since %v", m.tieBegan)
	}
}

// The status is a function: the same facts give the same status, whatever was requested in between. The clock alone
// ends a verdict.
func TestStatusComesFromFactsAlone(t *testing.T) {
	c := config.Default()
	c.NodeName = "n1"
	f := group(t, c, c.Budget(10*time.Second), 10*time.Second)
	until := f.Now.Add(2 * time.Second)
	first := f.Status(f.Now, until)
	if late := f.Status(until, until).GetVerdict(); !late.GetExpired() || late.GetQuorum() {
		t.Errorf("at its deadline: %v", late)
	}
	if again := f.Status(f.Now, until); again.String() != first.String() || first.GetVerdict().GetExpired() {
		t.Errorf("asked twice:\n%v\n%v", first, again)
	}
	n := first.GetNodes()
	if !n[0].GetSameRoster() || !n[1].GetSameRoster() || !n[1].GetSeesThisNode() || n[1].GetHorizon().AsDuration() != 10*time.Second || n[2].GetState().String() != "NODE_STATE_FENCED" || n[3].GetState().String() != "NODE_STATE_RESTARTING" {
		t.Errorf("nodes: %v", n)
	}
	if got := first.GetRoster(); got.GetEpoch() != 3 || got.GetSize() != 4 || got.GetQuorum() != 3 || got.GetChange() != "" {
		t.Errorf("list: %v", got)
	}
}

// A member is a suspect if it owes an answer on every network that reaches it. It is counted all the same.
func TestSuspects(t *testing.T) {
	c := config.Default()
	m := NewMetrics(prometheus.NewRegistry(), c, "test")
	f := group(t, c, c.Budget(10*time.Second), 0)
	f.Networks = append(f.Networks, Network{Links: make([]Link, 4)})
	a, b := &f.Networks[0].Links[1], &f.Networks[1].Links[1]
	for name, tt := range map[string]struct {
		a, b Link
		want bool
	}{
		"answers on both":            {Link{Reachable: true}, Link{Reachable: true}, false},
		"owes an answer on one":      {Link{Reachable: true, Suspect: true}, Link{Reachable: true}, false},
		"owes answers on both":       {Link{Reachable: true, Suspect: true}, Link{Reachable: true, Suspect: true}, true},
		"owes one, lost on the rest": {Link{Reachable: true, Suspect: true}, Link{}, true},
		"lost on both":               {Link{}, Link{}, false},
	} {
		*a, *b = tt.a, tt.b
		m.Show(f)
		if got := f.nodes()[1]; got.GetSuspect() != tt.want || !got.GetCounted() || (testutil.ToFloat64(m.suspects) == 1) != tt.want {
			t.Errorf("%s: %v, %v suspects", name, got, testutil.ToFloat64(m.suspects))
		}
	}
}

// A node that is hidden from subscribers because of its flaps is present and counted, and every reader sees why it is
// not listed.
func TestFlapping(t *testing.T) {
	c := config.Default()
	m := NewMetrics(prometheus.NewRegistry(), c, "test")
	f := group(t, c, c.Budget(10*time.Second), 0)
	f.Nodes[1].LeftReason, f.Nodes[2].LeftReason = watchdog.LeftFlapping, watchdog.LeftFlapping // n3 is away at the moment
	f.Available.Remove(1)
	m.Show(f)
	for state, want := range map[string]float64{"reachable": 1, "flapping": 1, "fenced": 1, "restarting": 1, "unreachable": 0} {
		if got := testutil.ToFloat64(m.members.WithLabelValues(state)); got != want {
			t.Errorf("%v %s, want %v", got, state, want)
		}
	}
	n := f.nodes()[1]
	if !n.GetReachable() || !n.GetCounted() || n.GetAvailable() || n.GetLeftReason() != "flapping" {
		t.Errorf("%v", n)
	}
}
