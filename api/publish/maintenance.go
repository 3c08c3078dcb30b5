package publish

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// maxMaintenance is the longest maintenance. For a longer time, configure the node as not guarded.
const maxMaintenance = 7 * 24 * time.Hour

// Maintenance is a time in which the watchdog of this node is disarmed.
type Maintenance struct {
	For        time.Duration // 0: end it now
	By, Reason string
}

// Maintain begins or ends a maintenance, and returns when it will end.
type Maintain func(context.Context, Maintenance) (ends time.Time, err error)

func (s *Server) SetMaintenance(ctx context.Context, req *fencingv1.SetMaintenanceRequest) (*fencingv1.SetMaintenanceResponse, error) {
	if err := s.mayTell(ctx); err != nil {
		s.log.Warn("refused to set maintenance: the caller may not ask for it", peerOf(ctx), "error", err)
		return nil, err
	}
	m := Maintenance{For: req.GetDuration().AsDuration(), By: req.GetBy(), Reason: req.GetReason()}
	var wrong complaints
	wrong.text("by", m.By, maxBy, true)
	wrong.text("reason", m.Reason, maxReason, m.For != 0)
	if m.For < 0 || m.For > maxMaintenance || req.GetDuration() != nil && req.GetDuration().CheckValid() != nil {
		wrong.add("duration must be more than 0 and at most %v, or missing to end the maintenance", maxMaintenance)
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	if s.maintain == nil {
		return nil, statusOf(ErrNotReady)
	}
	ends, err := s.maintain(ctx, m)
	if err != nil {
		s.log.Error("cannot set maintenance", peerOf(ctx), "error", err)
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	if m.For == 0 {
		s.log.Warn("maintenance was ended", peerOf(ctx), "by", m.By)
	} else {
		s.log.Warn("maintenance was set", peerOf(ctx), "for", m.For, "by", m.By, "reason", m.Reason)
	}
	out := &fencingv1.SetMaintenanceResponse{}
	if !ends.IsZero() {
		out.Ends = timestamppb.New(ends)
	}
	return out, nil
}
