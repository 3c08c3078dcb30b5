package view

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

func secs(s float64) *durationpb.Duration {
	return durationpb.New(time.Duration(s * float64(time.Second)))
}

func TestNaturalOrder(t *testing.T) {
	want := []string{"", "a", "n01", "n1", "n2", "n10", "n10a", "node-2", "node-10", "node-10-b2", "node-10-b10", "x"}
	for i, a := range want {
		for j, b := range want {
			if got := Compare(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%q with %q: %d", a, b, got)
			}
		}
	}
}

// TestConsequences covers what a verdict can mean for a node.
func TestConsequences(t *testing.T) {
	const (
		feed, hold     = fencingv1.Permission_PERMISSION_FEED, fencingv1.Permission_PERMISSION_HOLD
		starve, disarm = fencingv1.Permission_PERMISSION_STARVE, fencingv1.Permission_PERMISSION_DISARM
		armed, starved = fencingv1.WatchdogState_WATCHDOG_STATE_ARMED, fencingv1.WatchdogState_WATCHDOG_STATE_STARVED
		off, faulty    = fencingv1.WatchdogState_WATCHDOG_STATE_UNARMED, fencingv1.WatchdogState_WATCHDOG_STATE_FAULTY
	)
	device := func(state fencingv1.WatchdogState, running bool, fed float64) *fencingv1.WatchdogStatus {
		return &fencingv1.WatchdogStatus{Driver: "device", State: state, Armed: running, Timeout: secs(30), LastFeedAge: secs(fed)}
	}
	dry := func(state fencingv1.WatchdogState, fed float64) *fencingv1.WatchdogStatus {
		return &fencingv1.WatchdogStatus{Driver: "none", State: state, Timeout: secs(30), LastFeedAge: secs(fed)}
	}
	stuck := device(armed, true, 1)
	stuck.Nowayout = true
	unknown := device(starved, true, 0)
	unknown.Timeout, unknown.LastFeedAge = nil, nil
	for _, tt := range []struct {
		permission fencingv1.Permission
		quorum     bool
		policy     string
		watchdog   *fencingv1.WatchdogStatus
		want       string
	}{
		{feed, true, "fence", device(armed, true, 1), ""},
		{hold, true, "fence", device(armed, true, 1), ""},
		{feed, true, "fence", device(off, false, 0), "but the watchdog is not armed: nothing would reset this node"},
		{feed, true, "fence", device(faulty, true, 0), "but the watchdog is faulty: unknown"},
		{feed, true, "fence", dry(armed, 1), "driver none: a dry run, nothing would reset this node"},
		{feed, false, "exclude", device(armed, true, 1), "policy exclude: it is not reset, consumers hear that it has left"},
		{feed, false, "wait", device(armed, true, 1), "policy wait: it is not reset and goes on"},
		{starve, false, "fence", device(armed, true, 1), "the watchdog resets this node in about 29s, unless it may feed again before"},
		{starve, false, "fence", device(starved, true, 30), "the watchdog should have reset this node 0.0s ago"},
		{starve, false, "fence", device(off, false, 0), "the watchdog is not armed: nothing resets this node"},
		{starve, false, "fence", device(faulty, false, 0), "the watchdog is not armed: nothing resets this node"},
		{starve, false, "fence", unknown, "the watchdog resets this node when its timeout has passed"},
		{starve, false, "fence", dry(starved, 31.5), "driver none: a watchdog would have reset this node 1.5s ago"},
		{starve, false, "fence", dry(armed, 10), "driver none: a watchdog would reset this node in about 20s, unless it may feed again before"},
		{starve, false, "fence", dry(off, 0), "the watchdog is not armed: nothing resets this node"},
		{disarm, true, "fence", device(armed, true, 1), "the watchdog is still armed"},
		{disarm, true, "fence", stuck, "the watchdog cannot be disarmed (nowayout): it stays armed"},
		{disarm, true, "fence", device(off, false, 0), "the watchdog is off: nothing resets this node meanwhile"},
	} {
		st := &fencingv1.Status{
			Verdict:  &fencingv1.Verdict{Permission: tt.permission, Quorum: tt.quorum, OnQuorumLoss: tt.policy},
			Watchdog: tt.watchdog,
		}
		if got := Consequence(st).Text; got != tt.want {
			t.Errorf("%v with %v: %q, want %q", tt.permission, tt.watchdog, got, tt.want)
		}
	}
}

// TestLinkCells covers what can be known of a peer on a network.
func TestLinkCells(t *testing.T) {
	for want, member := range map[string]*fencingv1.NetworkMember{
		"ok 0.3s":    {Alive: true, Reachable: true, EvidenceAge: secs(0.3), StateAge: secs(60)},
		"late 1.3s":  {Alive: true, Reachable: true, Suspect: true, EvidenceAge: secs(1.3), StateAge: secs(60)},
		"STALE 5.1s": {Alive: true, EvidenceAge: secs(5.1), StateAge: secs(1.1)},
		"LOST 5.1s":  {EvidenceAge: secs(5.1), StateAge: secs(1.1)},
		// reported by an older agent, which forgets the answer when memberlist declares a death
		"LOST >1.1s": {StateAge: secs(1.1)},
		"NEVER":      {Alive: true},
	} {
		member.Name = "n2"
		m := newMatrix(&fencingv1.Status{
			Self:     &fencingv1.NodeIdentity{Name: "n1"},
			Networks: []*fencingv1.NetworkStatus{{Name: "mgmt", Up: true, Members: []*fencingv1.NetworkMember{member}}},
		})
		if got := m.link(0, "n2").Text; got != want {
			t.Errorf("%v is shown as %q, want %q", member, got, want)
		}
	}
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0s", 99 * time.Millisecond: "0.0s", 3210 * time.Millisecond: "3.2s", 9990 * time.Millisecond: "9.9s",
		59900 * time.Millisecond: "59s", 185 * time.Second: "3m05s", 7800 * time.Second: "2h10m",
		103 * time.Hour: "4d07h", -1500 * time.Millisecond: "-1.5s",
	} {
		if got := Brief(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		time.Minute: "1m", 90 * time.Second: "1m30s", 2 * time.Hour: "2h", 1500 * time.Millisecond: "1.5s", 40 * time.Second: "40s",
	} {
		if got := Exact(secs(d.Seconds())); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

// A node that was cut off was last heard at about the time of its last answer. That is not a one-way fault.
func TestOneWay(t *testing.T) {
	for _, tt := range []struct {
		answered, heard float64
		want            bool
	}{
		{4.2, 0.3, true}, {4.7, 4.1, false}, {4.7, 2.9, false}, {30, 4.9, true}, {30, 5.1, false}, {-1, 0.3, true}, {-1, -1, false}, {4.2, -1, false},
	} {
		n := &fencingv1.NodeStatus{}
		if tt.answered >= 0 {
			n.EvidenceAge = secs(tt.answered)
		}
		if tt.heard >= 0 {
			n.HeardAge = secs(tt.heard)
		}
		if got := oneWay(n); got != tt.want {
			t.Errorf("answered %gs, heard %gs ago: %t", tt.answered, tt.heard, got)
		}
	}
}
