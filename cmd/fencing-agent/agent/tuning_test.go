package agent

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/gossip"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Every parameter is in the status with the value that the gossip runs with.
func TestTuningStatusIsComplete(t *testing.T) {
	c := config.Default()
	c.Gossip.Profile = config.ProfileADR
	interval := 900 * time.Millisecond
	c.Gossip.Overrides.ProbeInterval = &interval
	run := gossip.Tuning{Params: c.ParamsFor(50), Size: 50}
	got := tuningStatus(c, run, nil)
	if got.GetProfile() != "adr" || got.GetTunedFor() != 50 || got.GetTransmissions() != 20 || len(got.GetKeyFingerprints()) != 0 {
		t.Errorf("got %v", got)
	}
	want := map[string]netgossip.Parameter{}
	for _, p := range run.Params.List() {
		want[p.Name] = p
	}
	for _, p := range got.GetParameters() {
		w := want[p.GetName()]
		delete(want, p.GetName())
		switch v := p.GetValue().(type) {
		case *fencingv1.GossipParameter_Duration:
			if w.Duration == nil || v.Duration.AsDuration() != *w.Duration {
				t.Errorf("%v, want %v", p, w.Value())
			}
		case *fencingv1.GossipParameter_Count:
			if w.Count == nil || int(v.Count) != *w.Count {
				t.Errorf("%v, want %v", p, w.Value())
			}
		default:
			t.Errorf("%v has no value", p)
		}
		if p.GetOverridden() != (p.GetName() == "probeInterval") {
			t.Errorf("%v: overridden is %v", p, p.GetOverridden())
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	for _, p := range run.Params.Consequences(50) {
		var shown time.Duration
		switch p.Name {
		case "suspicionMin":
			shown = got.GetSuspicionMin().AsDuration()
		case "suspicionMax":
			shown = got.GetSuspicionMax().AsDuration()
		case "typicalDetection":
			shown = got.GetTypicalDetection().AsDuration()
		case "worstDetection":
			shown = got.GetWorstDetection().AsDuration()
		case "transmissions":
			continue
		default:
			t.Errorf("%s is not in the status", p.Name)
			continue
		}
		if shown != *p.Duration || shown <= 0 {
			t.Errorf("%s is %v, want %v", p.Name, shown, *p.Duration)
		}
	}
}

// The metrics show the sums that the peers are told, and the longest of all.
func TestBudgetMetrics(t *testing.T) {
	c := config.Default()
	m := newMetrics(prometheus.NewRegistry(), c, "test")
	b := c.Budget(40 * time.Second)
	m.showBudget(b, 0)
	for term, want := range map[string]time.Duration{
		"d_max": 4 * time.Second, "arbitration": 10 * time.Second, "watchdog": 40 * time.Second, "release": 40 * time.Second,
		"horizon_majority": b.Majority(), "horizon_tie": b.Tie(),
	} {
		if got := testutil.ToFloat64(m.budget.WithLabelValues(term)); got != want.Seconds() {
			t.Errorf("%s: %v, want %v", term, got, want.Seconds())
		}
	}
	for _, peers := range []time.Duration{0, time.Second, time.Hour} {
		m.showBudget(b, peers)
		if got, want := testutil.ToFloat64(m.furthest), max(b.Horizon(), peers).Seconds(); got != want {
			t.Errorf("longest with %v at a peer: %v, want %v", peers, got, want)
		}
	}
}
