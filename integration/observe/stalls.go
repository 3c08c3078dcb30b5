package observe

import (
	"sync"
	"time"
)

const (
	stallTick = 50 * time.Millisecond
	stallMin  = 500 * time.Millisecond
)

// Stalls notices when the machine stands still: on shared hardware all processes of a virtual
// machine may stop for seconds. Agents that stand still together rightly lose sight of each
// other, so what is seen then says nothing. It measures the calling process alone: a hung agent
// is no stall. Safe for concurrent use; Close ends its goroutine.
type Stalls struct {
	stop chan struct{}
	done chan struct{}

	mu    sync.Mutex
	found []stall // guarded by mu; oldest first
}

type stall struct {
	end  time.Time
	took time.Duration
}

// NewStalls begins to watch.
func NewStalls() *Stalls {
	s := &Stalls{stop: make(chan struct{}), done: make(chan struct{})}
	go s.run()
	return s
}

func (s *Stalls) run() {
	defer close(s.done)
	ticker := time.NewTicker(stallTick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			s.tick(last, time.Now())
			last = time.Now()
		}
	}
}

func (s *Stalls) tick(last, now time.Time) {
	if took := now.Sub(last) - stallTick; took >= stallMin {
		s.mu.Lock()
		s.found = append(s.found, stall{now, took})
		s.mu.Unlock()
	}
}

// Since returns the longest stall that ended after t; 0: none.
func (s *Stalls) Since(t time.Time) (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.found {
		if f.end.After(t) {
			longest = max(longest, f.took)
		}
	}
	return longest
}

// Close ends the watch.
func (s *Stalls) Close() {
	close(s.stop)
	<-s.done
}
