package csi

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// latency is the time that the storage needs to attach or detach a volume.
const latency = 100 * time.Millisecond

// Change is an attachment that began or ended.
type Change struct {
	At           time.Time
	Volume, Node string
	Attached     bool
	Refused      string // the node that the volume was attached to
}

// String describes the change for a reader.
func (c Change) String() string {
	what := "detached from"
	switch {
	case c.Refused != "":
		what = "refused, " + c.Refused + " has it, to"
	case c.Attached:
		what = "attached to"
	}
	return fmt.Sprintf("%s %s %s %s", c.At.Format("15:04:05.000"), c.Volume, what, c.Node)
}

// Storage is the storage's own record of which node has which volume attached.
type Storage struct {
	csi.UnimplementedControllerServer

	mu      sync.Mutex // guards the fields below
	has     map[string]string
	changes []Change
}

// Serve answers csi-attacher.
func (s *Storage) Serve(ctx context.Context, socket string) error {
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, identity{})
	csi.RegisterControllerServer(server, s)
	return listenAndServe(ctx, server, socket)
}

// Changes returns all changes since the start, in their order.
func (s *Storage) Changes() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.changes)
}

// Node returns the node to which the volume is attached; "": none.
func (s *Storage) Node(volume string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has[volume]
}

// ControllerGetCapabilities reports that volumes are attached.
func (*Storage) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	rpc := &csi.ControllerServiceCapability_RPC{Type: csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{{Type: &csi.ControllerServiceCapability_Rpc{Rpc: rpc}}}}, nil
}

// ControllerPublishVolume attaches a volume.
func (s *Storage) ControllerPublishVolume(ctx context.Context, q *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if err := pause(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has == nil {
		s.has = map[string]string{}
	}
	switch other := s.has[q.VolumeId]; other {
	case q.NodeId:
	case "":
		s.has[q.VolumeId] = q.NodeId
		s.changes = append(s.changes, Change{At: time.Now(), Volume: q.VolumeId, Node: q.NodeId, Attached: true})
	default:
		s.changes = append(s.changes, Change{At: time.Now(), Volume: q.VolumeId, Node: q.NodeId, Refused: other})
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %s", q.VolumeId, other)
	}
	return &csi.ControllerPublishVolumeResponse{}, nil
}

// ControllerUnpublishVolume detaches it.
func (s *Storage) ControllerUnpublishVolume(ctx context.Context, q *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	if err := pause(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has[q.VolumeId] == q.NodeId {
		delete(s.has, q.VolumeId)
		s.changes = append(s.changes, Change{At: time.Now(), Volume: q.VolumeId, Node: q.NodeId})
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func pause(ctx context.Context) error {
	select {
	case <-time.After(latency):
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}
