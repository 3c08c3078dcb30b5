package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Guard: an agent that knew the deadline would end the stream first, and the client would conclude that the agent is
// gone.
func TestStreamsTellNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ctx, end := withoutDeadline(outer)
		defer end(nil)
		if at, told := ctx.Deadline(); told {
			t.Errorf("deadline %v", at)
		}
		<-ctx.Done()
		if outer.Err() == nil || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Errorf("it ended with %v, before %v", context.Cause(ctx), outer.Err())
		}
		ctx, end = withoutDeadline(t.Context())
		if end(errNoAnswer); !errors.Is(context.Cause(ctx), errNoAnswer) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
	})
}
