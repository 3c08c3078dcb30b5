package members

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/marks"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

const tellTimeout = 15 * time.Second

// teller is the common part of the two tellers. Each reports to fencing-controller what an agent with members.source:
// controller cannot write as an annotation on its Node.
type teller struct {
	*marks.Outbox
	boot  string
	clock boottime.Clock
}

// newTeller returns a teller that sends by t. lost is logged when a report is not accepted: what that means.
func newTeller(boot string, clock boottime.Clock, log *slog.Logger, lost string, t marks.Transport) teller {
	t.Refuses = func(err error) bool { return status.Code(err) == codes.Unimplemented } // an older controller
	t.Unsure, t.Clock, t.Logger, t.Failed, t.Refused = true, clock, log, lost, lost
	return teller{Outbox: marks.NewOutbox(t), boot: boot, clock: clock}
}

// Seen does nothing: the Node's annotation is not this agent's.
func (t *teller) Seen(ownnode.State) {}

// callError is an error of a call, in an operator's words.
type callError struct{ error }

func (e callError) Error() string { return told(e.error) }
func (e callError) Unwrap() error { return e.error }

// once makes one call. Each call has its own connection: calls are rare, and a new one may lead to another replica.
func (c *controllerSource) once(ctx context.Context, call func(context.Context, fencingv1.FencingMembersClient) error) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func(c *grpc.ClientConn) { _ = c.Close() }(conn)
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	if err := call(ctx, fencingv1.NewFencingMembersClient(conn)); err != nil {
		return callError{err}
	}
	return nil
}
