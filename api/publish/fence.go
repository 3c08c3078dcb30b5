package publish

import (
	"context"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// FenceOrder is a request from this node to end one boot of another node.
type FenceOrder struct {
	Node       string
	Boot       uint64
	By, Reason string
}

// Order passes such an order to the agent's loop and waits for the outcome. The error gives the reason why the order
// failed, or is the context's error.
type Order func(context.Context, FenceOrder) error

func (s *Server) Fence(ctx context.Context, req *fencingv1.FenceRequest) (*fencingv1.FenceResponse, error) {
	if err := s.mayTell(ctx); err != nil {
		s.log.Warn("refused a fence order: the caller may not give one", peerOf(ctx), "peer", printable(req.GetNode(), maxNode), "error", err)
		return nil, err
	}
	o := FenceOrder{Node: req.GetNode(), By: req.GetBy(), Reason: req.GetReason()}
	var wrong complaints
	wrong.text("node", o.Node, maxNode, true)
	wrong.text("by", o.By, maxBy, true)
	wrong.text("reason", o.Reason, maxReason, false)
	o.Boot = wrong.boot(req.GetBootNonce())
	if err := wrong.err(); err != nil {
		return nil, err
	}
	if s.order == nil {
		return nil, statusOf(ErrNotReady)
	}
	what := []any{peerOf(ctx), "peer", o.Node, "boot", req.GetBootNonce(), "by", o.By, "reason", o.Reason}
	return &fencingv1.FenceResponse{}, s.ask(ctx, "fence order expired without effect", what, func(ctx context.Context) error {
		s.log.Warn("a fence order is on its way to a node", what...)
		err := s.order(ctx, o)
		if err == nil {
			s.log.Warn("the node obeyed the fence order and announced its self-fence", what...)
		}
		return err
	})
}
