package boottime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if Wait(t.Context(), time.Minute); time.Since(began) != time.Minute {
			t.Errorf("waited %v", time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began = time.Now()
		if Wait(ctx, time.Hour); time.Since(began) != time.Second {
			t.Errorf("waited %v although the context had ended", time.Since(began))
		}
	})
}

// Guard: pauses double up to the longest, begin again after a reset, and are spread over half of their length.
func TestBackoff(t *testing.T) {
	b := Backoff{First: 500 * time.Millisecond, Most: 10 * time.Second}
	for range 2 {
		for tries := range 70 {
			longest := b.Most
			if tries < 5 {
				longest = min(longest, b.First<<tries)
			}
			seen := map[time.Duration]bool{}
			for range 50 {
				once := b
				d := once.Next()
				if d < longest/2 || d >= longest {
					t.Fatalf("after %d tries: %v, want at least half of %v", tries, d, longest)
				}
				seen[d] = true
			}
			if len(seen) < 10 {
				t.Errorf("after %d tries: only %d different pauses", tries, len(seen))
			}
			b.Next()
		}
		b.Reset()
	}
}
