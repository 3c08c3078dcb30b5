package picture

import (
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/gossip"
)

// tuning is the parameters that the gossip on a network runs with, and the fingerprints of its keys.
func tuning(c *config.Config, t gossip.Tuning, keys []string) *fencingv1.GossipTuning {
	p := t.Params
	out := &fencingv1.GossipTuning{
		Profile: string(c.Gossip.Profile), TunedFor: uint32(t.Size),
		SuspicionMin: durationpb.New(p.SuspicionMin(t.Size)), SuspicionMax: durationpb.New(p.SuspicionMax(t.Size)),
		KeyFingerprints:  keys,
		Transmissions:    uint32(p.Transmissions(t.Size)),
		TypicalDetection: durationpb.New(p.TypicalDetection(t.Size)), WorstDetection: durationpb.New(p.WorstDetection(t.Size)),
	}
	given := c.Experimental.Gossip.Given()
	for _, q := range p.List() {
		g := &fencingv1.GossipParameter{Name: q.Name, Overridden: slices.Contains(given, q.Name)}
		if q.Duration != nil {
			g.Value = &fencingv1.GossipParameter_Duration{Duration: durationpb.New(*q.Duration)}
		} else {
			g.Value = &fencingv1.GossipParameter_Count{Count: uint32(*q.Count)}
		}
		out.Parameters = append(out.Parameters, g)
	}
	return out
}
