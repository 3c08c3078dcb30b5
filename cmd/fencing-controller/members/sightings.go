package members

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// TellSightings implements fencingv1.FencingMembersServer.
//
// Invariant: a report is kept for the node that the token is bound to, only if the Node shows the boot in which it
// was sent, and never replaces a later one.
func (s *Server) TellSightings(ctx context.Context, r *fencingv1.SightingsReport) (*fencingv1.SightingsKept, error) {
	node, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	if s.Told == nil {
		return nil, status.Error(codes.Unimplemented, "this controller takes no sightings")
	}
	now, err := sightingOf(r)
	if err != nil {
		return nil, err
	}
	if !s.mayTell("sightings of " + node) {
		return nil, status.Error(codes.ResourceExhausted, "this node sent a report a moment ago")
	}
	return &fencingv1.SightingsKept{}, s.keep(ctx, node, "sightings", func(ctx context.Context, by Reporter) error {
		was, version, err := s.Told.Sighted(ctx, node)
		switch {
		case err != nil:
			return err
		case now.Boot != by.Boot:
			return deaths.ErrOtherBoot
		case !now.After(was):
			return deaths.ErrOld
		case now.Empty() && (was == nil || was.Empty()):
			return nil // neither report has any content: nothing need be written
		}
		return s.Told.See(ctx, node, now, by, version)
	})
}

// sightingOf refuses invalid reports.
func sightingOf(r *fencingv1.SightingsReport) (*sightings.Sighting, error) {
	if !deaths.IsBoot(r.GetBoot()) {
		return nil, status.Error(codes.InvalidArgument, "the report names no boot")
	}
	for _, list := range [][]string{r.GetSlotMoves(), r.GetSlotStill()} {
		if len(list) > sightings.Most {
			return nil, status.Error(codes.InvalidArgument, "there are more nodes than a report may have")
		}
		for _, name := range list {
			if name == "" || len(name) > longestNode {
				return nil, status.Errorf(codes.InvalidArgument, "%.60q is not the name of a node", name)
			}
		}
	}
	if len(r.GetSees()) > sightings.Most {
		return nil, status.Error(codes.InvalidArgument, "there are more nodes than a report may have")
	}
	for name, boot := range r.GetSees() {
		if name == "" || len(name) > longestNode || !deaths.IsBoot(boot) {
			return nil, status.Errorf(codes.InvalidArgument, "%.60q is not the name of a node, or has no boot", name)
		}
	}
	return &sightings.Sighting{
		Boot: r.GetBoot(), Number: r.GetNumber(), QuorumLost: r.GetQuorumLost(), SlotMoves: r.GetSlotMoves(), SlotStill: r.GetSlotStill(), Sees: r.GetSees(),
	}, nil
}

// Sighted implements ToldStore. A report that cannot be read counts as empty, and is replaced.
func (c *Cluster) Sighted(ctx context.Context, node string) (*sightings.Sighting, string, error) {
	m, err := c.configMap(ctx, sightings.KeptName(node))
	if m == nil {
		return nil, "", err
	}
	return sightings.Kept(m.Labels, m.Data), m.ResourceVersion, nil
}

func (c *Cluster) See(ctx context.Context, node string, s *sightings.Sighting, by Reporter, version string) error {
	m := told(node, by, sightings.KeptName(node), sightings.KeptValue, sightings.KeptKey, sightings.Encode(*s), c.Namespace)
	m.Data[sightings.HeardKey] = time.Now().UTC().Format(time.RFC3339)
	return c.put(ctx, m, version)
}
