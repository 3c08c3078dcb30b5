package boottime

import (
	"context"
	"time"
)

// Wait waits for d, or until ctx ends. It is for waits that may end late, such as a pause between two attempts: it
// counts by Go's timers, which stand still while the machine is suspended.
func Wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
