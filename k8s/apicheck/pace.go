package apicheck

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Pace determines how often a checker asks: seldom, or often when an answer may soon be needed. It is safe for
// concurrent use and never blocks. [NewPace] creates one.
type Pace struct {
	seldom, often time.Duration

	mu      sync.Mutex
	urgent  bool
	changed chan struct{} // closed when urgent changes
}

// NewPace returns a pace that is not urgent. The times seldom and often are between the starts of two checks; each
// varies by a tenth.
func NewPace(seldom, often time.Duration) *Pace {
	return &Pace{seldom: seldom, often: often, changed: make(chan struct{})}
}

// Urge makes the checks frequent, or seldom again.
func (p *Pace) Urge(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on != p.urgent {
		p.urgent = on
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

func (p *Pace) now() (urgent bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.urgent, p.changed
}

// Wait returns when the next check is due after one that started at began, or when ctx has ended. If checks become
// urgent meanwhile, Wait does not wait for the end of a long interval.
func (p *Pace) Wait(ctx context.Context, began time.Time, r *rand.Rand) {
	for {
		urgent, changed := p.now()
		interval := p.seldom
		if urgent {
			interval = p.often
		}
		timer := time.NewTimer(time.Until(began.Add(jittered(interval, r))))
		select {
		case <-timer.C:
			return
		case <-changed:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func jittered(d time.Duration, r *rand.Rand) time.Duration {
	tenth := int64(d / 10)
	return d + time.Duration(r.Int64N(2*tenth+1)-tenth)
}
