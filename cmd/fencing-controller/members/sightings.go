package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// SightingStore keeps what agents tell against fencing nodes by their devices. It is read from the API server, and not from a cache.
type SightingStore interface {
	// Reporter is what a node's Node shows.
	Reporter(ctx context.Context, node string) (Reporter, error)
	// Sighted is what the node's agent has told, nil if nothing, and its version for See.
	Sighted(ctx context.Context, node string) (s *sightings.Sighting, version string, err error)
	// See replaces that version; [ErrConflict] if it is another by now. It is kept as long as the Node that tells it.
	See(ctx context.Context, node string, s *sightings.Sighting, by Reporter, version string) error
}

// TellSightings implements fencingv1.FencingMembersServer.
//
// Invariant: what is kept is kept for the node that the token is bound to, only while the Node shows the boot in which it was told,
// and takes the place of nothing later.
func (s *Server) TellSightings(ctx context.Context, r *fencingv1.SightingsReport) (*fencingv1.SightingsKept, error) {
	node, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	if s.Sightings == nil {
		return nil, status.Error(codes.Unimplemented, "this controller takes no sightings")
	}
	now, err := sightingOf(r)
	if err != nil {
		return nil, err
	}
	if !s.mayTell("sightings of " + node) {
		return nil, status.Error(codes.ResourceExhausted, "this node has told something a moment ago")
	}
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	switch err := s.see(ctx, node, now); {
	case err == nil:
		return &fencingv1.SightingsKept{}, nil
	case errors.Is(err, errNoNode), errors.Is(err, deaths.ErrOtherBoot):
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, deaths.ErrOld), errors.Is(err, ErrConflict):
		return nil, status.Error(codes.Aborted, err.Error())
	default:
		s.Logger.Warn("cannot store the signs of life that an agent reports", "node", node, "err", err)
		return nil, status.Error(codes.Unavailable, "it cannot be kept now")
	}
}

// see keeps a report. Where nothing is kept, one with nothing in it is not written.
func (s *Server) see(ctx context.Context, node string, now *sightings.Sighting) error {
	for try := 1; ; try++ {
		by, err := s.Sightings.Reporter(ctx, node)
		if err != nil {
			return err
		}
		was, version, err := s.Sightings.Sighted(ctx, node)
		switch {
		case err != nil:
			return err
		case now.Boot != by.Boot:
			return deaths.ErrOtherBoot
		case !now.After(was):
			return deaths.ErrOld
		case now.Empty() && (was == nil || was.Empty()):
			return nil
		}
		if err := s.Sightings.See(ctx, node, now, by, version); !errors.Is(err, ErrConflict) || try == tellTries {
			return err
		}
	}
}

// sightingOf refuses reports that are none.
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
				return nil, status.Errorf(codes.InvalidArgument, "%.60q is the name of no node", name)
			}
		}
	}
	if len(r.GetSees()) > sightings.Most {
		return nil, status.Error(codes.InvalidArgument, "there are more nodes than a report may have")
	}
	for name, boot := range r.GetSees() {
		if name == "" || len(name) > longestNode || !deaths.IsBoot(boot) {
			return nil, status.Errorf(codes.InvalidArgument, "%.60q is the name of no node, or has no boot", name)
		}
	}
	return &sightings.Sighting{
		Boot: r.GetBoot(), Number: r.GetNumber(), QuorumLost: r.GetQuorumLost(), SlotMoves: r.GetSlotMoves(), SlotStill: r.GetSlotStill(), Sees: r.GetSees(),
	}, nil
}

var _ SightingStore = (*Cluster)(nil)

// Sighted implements SightingStore. What cannot be read says nothing, and is replaced.
func (c *Cluster) Sighted(ctx context.Context, node string) (*sightings.Sighting, string, error) {
	var m corev1.ConfigMap
	err := c.Reader.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: sightings.KeptName(node)}, &m)
	if apierrors.IsNotFound(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read what was told: %w", err)
	}
	return sightings.Kept(m.Labels, m.Data), m.ResourceVersion, nil
}

// See implements SightingStore.
func (c *Cluster) See(ctx context.Context, node string, s *sightings.Sighting, by Reporter, version string) error {
	m := told(node, by, sightings.KeptName(node), sightings.KeptValue, sightings.KeptKey, sightings.Encode(*s), c.Namespace)
	m.Data[sightings.HeardKey] = time.Now().UTC().Format(time.RFC3339)
	return c.put(ctx, m, version)
}
