package picture

import (
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/gossip"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// The status has every parameter, with the value that the gossip uses.
func TestTuningStatusIsComplete(t *testing.T) {
	c := config.Default()
	c.Gossip.Profile = netgossip.ProfileADR
	interval := 900 * time.Millisecond
	c.Experimental.Gossip.ProbeInterval = &interval
	run := gossip.Tuning{Params: c.ParamsFor(50), Size: 50}
	got := tuning(c, run, nil)
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
