package boottime

import (
	"context"
	"time"
)

// Wait waits for d, or until ctx ends. It is for what may come late, as every pause between two attempts may: it
// counts by Go's timers, which stand still while the machine is suspended.
func Wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
