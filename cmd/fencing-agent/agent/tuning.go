package agent

import (
	"log/slog"

	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/types/known/durationpb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// tuning is the parameters that the gossip on a network runs with, and the roster size
// they were made for.
type tuning struct {
	params netgossip.Params
	size   int
}

// showTuning puts the parameters of a network into the metrics and the log. It is called
// whenever its gossip starts with others.
func (a *Agent) showTuning(network string, t tuning) {
	attrs := []any{"network", network, "profile", string(a.cfg.Gossip.Profile), "tuned_for", t.size}
	for _, p := range append(t.params.List(), t.params.Consequences(t.size)...) {
		a.metrics.parameters.WithLabelValues(network, p.Name).Set(p.Number())
		attrs = append(attrs, slog.Any(p.Name, p.Value()))
	}
	a.log.Info("gossip parameters", attrs...)
}

// tuningStatus is the same for the status.
func tuningStatus(c *config.Config, t tuning, keys *memberlist.Keyring) *fencingv1.GossipTuning {
	p := t.params
	out := &fencingv1.GossipTuning{
		Profile: string(c.Gossip.Profile), TunedFor: uint32(t.size),
		SuspicionMin: durationpb.New(p.SuspicionMin(t.size)), SuspicionMax: durationpb.New(p.SuspicionMax(t.size)),
		KeyFingerprints:  swim.Fingerprints(keys),
		Transmissions:    uint32(p.Transmissions(t.size)),
		TypicalDetection: durationpb.New(p.TypicalDetection(t.size)), WorstDetection: durationpb.New(p.WorstDetection(t.size)),
	}
	for _, q := range p.List() {
		g := &fencingv1.GossipParameter{Name: q.Name, Overridden: c.Gossip.Overrides.Gives(q.Name)}
		if q.Duration != nil {
			g.Value = &fencingv1.GossipParameter_Duration{Duration: durationpb.New(*q.Duration)}
		} else {
			g.Value = &fencingv1.GossipParameter_Count{Count: uint32(*q.Count)}
		}
		out.Parameters = append(out.Parameters, g)
	}
	return out
}
