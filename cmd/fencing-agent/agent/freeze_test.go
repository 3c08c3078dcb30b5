package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/picture"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/watchdogtest"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// frozen returns an agent that stands still: its clock runs, but its loop does not. Its permission to feed ends at 10
// s.
func frozen(t *testing.T, now *boottime.Instant) *Agent {
	t.Helper()
	a := &Agent{clock: func() boottime.Instant { return *now }, roster: listing(t, "n1", "n2"), published: published{left: make([]time.Time, 2), opened: true}}
	a.guard.clock = a.clock
	a.published.hub = publish.NewHub(publish.HubConfig{Source: "n1", Expired: a.guard.expired})
	a.published.hub.Update(a.nodes(roster.SetOf(0, 1)), nil)
	c := config.Default()
	c.NodeName = "n1"
	feeds := &netgossip.Statement{Feeding: true}
	a.published.facts.Store(&picture.Facts{
		Config: c, Roster: a.roster, Available: roster.SetOf(0, 1), Nodes: []picture.Node{{Said: feeds}, {Said: feeds}},
		Verdict: picture.Verdict{Decision: watchdog.Decision{Action: watchdog.Feed, Quorum: true, Reason: watchdog.ReasonNetworkQuorum}},
	})
	a.guard.deadline.Store(int64(10 * time.Second))
	return a
}

// Guard: a status is checked against the clock when it is handed out. After a freeze it would otherwise report an old
// state.
func TestStatusDoesNotOutliveItsVerdict(t *testing.T) {
	now := boottime.Instant(9 * time.Second)
	a := frozen(t, &now)
	st := a.status()
	fresh := st.GetVerdict().GetText()
	if v := st.GetVerdict(); v.GetPermission() != fencingv1.Permission_PERMISSION_FEED || !v.GetQuorum() || v.GetValidFor().AsDuration() != time.Second {
		t.Errorf("before the deadline: %v", v)
	}
	now = boottime.Instant(10 * time.Second)
	st = a.status()
	if v := st.GetVerdict(); v.GetPermission() != fencingv1.Permission_PERMISSION_STARVE || v.GetQuorum() || v.GetValidFor() != nil || !v.GetExpired() || v.GetText() == fresh {
		t.Errorf("at the deadline: %v", v)
	}
	if self, peer := st.GetNodes()[0], st.GetNodes()[1]; self.GetFeeding() || self.GetAvailable() || !peer.GetFeeding() || !peer.GetAvailable() {
		t.Errorf("at the deadline: %v, %v", self, peer)
	}
	a.guard.deadline.Store(int64(12 * time.Second)) // the loop has decided, and has not taken the next picture
	if v := a.status().GetVerdict(); v.GetPermission() != fencingv1.Permission_PERMISSION_FEED || v.GetValidFor().AsDuration() != 2*time.Second {
		t.Errorf("with a renewed verdict: %v", v)
	}
	a.guard.deadline.Store(0) // the loop has withdrawn the permission
	if v := a.status().GetVerdict(); v.GetPermission() != fencingv1.Permission_PERMISSION_STARVE {
		t.Errorf("with a withdrawn one: %v", v)
	}
}

// Guard: the API uses the same deadline as the feeder.
func TestDeadlineIsThatOfTheFeeder(t *testing.T) {
	now := boottime.Instant(9 * time.Second)
	a := frozen(t, &now)
	feeder, err := wdt.NewFeeder(wdt.Config{Device: new(watchdogtest.Device), Timeout: time.Minute, FeedInterval: time.Second, Clock: a.clock})
	if err != nil {
		t.Fatal(err)
	}
	a.guard.feeder = feeder
	for _, d := range []watchdog.Decision{
		{Action: watchdog.Feed, Until: boottime.Instant(12 * time.Second)}, {Action: watchdog.Hold, Until: boottime.Instant(13 * time.Second)}, {Action: watchdog.Starve},
	} {
		a.guard.permit(now, &watchdog.Effects{Decision: d}, "")
		if got := boottime.Instant(a.guard.deadline.Load()); got != d.Until {
			t.Errorf("%v until %v: the API goes by %v", d.Action, d.Until, got)
		}
	}
}

// Guard: this node is not listed for longer than its verdict holds. The next step that finds it available lists it
// again.
func TestOwnNodeIsNotListedWithoutAVerdict(t *testing.T) {
	now := boottime.Instant(9 * time.Second)
	a := frozen(t, &now)
	want := func(what string, revision uint64, names ...string) {
		t.Helper()
		all, r, err := a.published.hub.Nodes()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range all.GetNodes() {
			got = append(got, n.GetName())
		}
		if !slices.Equal(got, names) || r != revision {
			t.Errorf("%s: %v at revision %d, want %v at %d", what, got, r, names, revision)
		}
	}
	want("before the deadline", 2, "n1", "n2")
	now = boottime.Instant(10 * time.Second)
	want("at the deadline", 3, "n2")
	want("asked again", 3, "n2")
	a.guard.deadline.Store(int64(20 * time.Second))
	want("renewed, and not published yet", 3, "n2")
	a.publish(now, &watchdog.Effects{Available: roster.SetOf(0, 1)})
	want("published", 4, "n1", "n2")
}
