package boottime

import (
	"context"
	"math/rand/v2"
	"time"
)

// Wait waits for d, or until ctx ends. It is for waits that may end late, such as a pause between two attempts: it
// uses Go's timers, which stop while the machine is suspended.
func Wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// Wake wakes a goroutine that receives from it. Signals that it has not received yet are one.
type Wake chan struct{}

// NewWake returns a Wake that nobody has signalled.
func NewWake() Wake { return make(Wake, 1) }

// Signal never blocks. What the goroutine has to see must be stored before.
func (w Wake) Signal() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Backoff computes the pause before the next attempt: it doubles from First to Most, and is spread so that many clients
// do not try again at the same moment. The zero value is not usable. It is not safe for concurrent use.
type Backoff struct {
	First, Most time.Duration
	Rand        *rand.Rand // nil: the process's global source

	next time.Duration
}

// Next returns the pause after a failure.
func (b *Backoff) Next() time.Duration {
	b.next = min(b.Most, max(b.First, 2*b.next))
	// Half of the pause is fixed: otherwise a random pause could be almost zero.
	return b.next/2 + Jitter(b.Rand, b.next/2)
}

// Reset makes the next pause start from First again.
func (b *Backoff) Reset() { b.next = 0 }

// Jitter returns a random time of up to most.
func Jitter(r *rand.Rand, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	if r == nil {
		return rand.N(most)
	}
	return time.Duration(r.Int64N(int64(most)))
}
