package publish

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// These are the reasons why a call or a subscription ends.
var (
	// ErrNotReady: the agent has no view of its group yet.
	ErrNotReady = errors.New("the agent has no view of its group yet: keep the last known nodes and try again")
	// ErrSlow: the subscriber let its queue fill up.
	ErrSlow = errors.New("events were read too slowly: subscribe again and call GetAll")
	// ErrTooMany: the limit of subscribers or watchers is reached.
	ErrTooMany = errors.New("too many clients are subscribed: stop some of them")
	// ErrStopped: the agent stops.
	ErrStopped = errors.New("the agent is stopping: keep the last known nodes and try again")
)

// statusOf gives an error its gRPC code.
func statusOf(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotReady), errors.Is(err, ErrStopped):
		return status.Error(codes.Unavailable, err.Error())
	case errors.Is(err, ErrSlow), errors.Is(err, ErrTooMany):
		return status.Error(codes.ResourceExhausted, err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return err // the transport's error, which carries its code
}
