package publish

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// FenceOrder is the wish of somebody on this node that one boot of another node ends.
type FenceOrder struct {
	Node       string
	Boot       uint64
	By, Reason string
}

// Order takes such an order to the agent's loop and waits for what becomes of it. An error is why it comes to nothing, or that of
// the context.
type Order func(context.Context, FenceOrder) error

// Fence implements fencing.v1.FencingControl.
func (s *Server) Fence(ctx context.Context, req *fencingv1.FenceRequest) (*fencingv1.FenceResponse, error) {
	if err := s.mayTell(ctx); err != nil {
		s.log.Warn("refused a fence order: the caller may not give one", peerOf(ctx), "peer", printable(req.GetNode(), maxNode), "error", err)
		return nil, err
	}
	o, err := fenceOrder(req)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if s.order == nil {
		return nil, statusOf(ErrNotReady)
	}
	select {
	case s.telling <- struct{}{}:
		defer func() { <-s.telling }()
	default:
		return nil, status.Error(codes.ResourceExhausted, "too many deaths are being told at once: try again")
	}
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	what := []any{peerOf(ctx), "peer", o.Node, "boot", req.GetBootNonce(), "by", o.By, "reason", o.Reason}
	s.log.Warn("a fence order is on its way to a node", what...)
	switch err = s.order(ctx, o); {
	case err == nil:
		s.log.Warn("the node obeyed the fence order and announced its self-fence", what...)
		return &fencingv1.FenceResponse{}, nil
	case ctx.Err() != nil && s.stopping.Err() != nil:
		return nil, statusOf(ErrStopped)
	case ctx.Err() != nil:
		return nil, status.Error(codes.Unavailable, "the agent has not decided in time: look at its status before you try again")
	}
	s.log.Warn("fence order expired without effect", append(what, slog.Any("error", err))...)
	return nil, status.Error(codes.FailedPrecondition, err.Error())
}

// fenceOrder checks what a caller wrote, and says all that is wrong with it at once.
func fenceOrder(req *fencingv1.FenceRequest) (FenceOrder, error) {
	o := FenceOrder{Node: req.GetNode(), By: req.GetBy(), Reason: req.GetReason()}
	var wrong []string
	for _, f := range []struct {
		name, value string
		limit       int
		needed      bool
	}{{"node", o.Node, maxNode, true}, {"by", o.By, maxBy, true}, {"reason", o.Reason, maxReason, false}} {
		switch {
		case f.needed && f.value == "":
			wrong = append(wrong, f.name+" is missing")
		case f.value != printable(f.value, f.limit):
			wrong = append(wrong, fmt.Sprintf("%s: at most %d printable ASCII characters are possible", f.name, f.limit))
		}
	}
	boot, err := strconv.ParseUint(req.GetBootNonce(), 16, 64)
	if err != nil || len(req.GetBootNonce()) != 16 || boot == 0 {
		wrong = append(wrong, "boot_nonce: 16 hexadecimal digits are needed, as in NodeStatus.boot_nonce")
	}
	if o.Boot = boot; len(wrong) > 0 {
		return o, fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return o, nil
}
