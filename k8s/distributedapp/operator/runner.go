package operator

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/distributedapp"
)

const (
	requestTimeout = 10 * time.Second // of one look: two reads and a write
	readPause      = time.Second      // between two reads of the configuration, no matter how many messages ask for one
	countEvery     = 5 * time.Second  // apps, for the metrics
	mostMessages   = 1024             // that wait to be looked at
)

// Gossip is what a replica needs of its transport.
type Gossip interface {
	Members() []string
	Tell([]distributedapp.Message)
}

// Options of a Runner.
type Options struct {
	Reader    client.Reader // of the API server, not of a cache
	Writer    client.Client
	Core      distributedapp.Settings
	Stable    time.Duration // see distributedapp.Facts
	Namespace string        // of the ConfigMap
	Workers   int
	Logger    *slog.Logger
	Metrics   *Metrics
	Now       func() time.Time
}

// Runner is one replica.
type Runner struct {
	o     Options
	state atomic.Pointer[distributedapp.Config] // for gossip

	mu    sync.Mutex
	inbox []func(now time.Time)
	hints int // of them messages
	wake  chan struct{}

	gossip Gossip

	// Below is Start's.
	core      *distributedapp.Core
	how       settings
	pending   []distributedapp.Key
	waiting   map[distributedapp.Key]bool // in pending
	busy      map[distributedapp.Key]bool // looked at now
	again     map[distributedapp.Key]bool // and due again
	shown     map[distributedapp.Key]bool // and shown meanwhile
	reading   map[distributedapp.Key]bool
	config    bool // is being read
	configAt  time.Time
	countAt   time.Time
	complaint string
	wg        sync.WaitGroup
}

// New returns a replica that does nothing before Start.
func New(o Options) *Runner {
	r := &Runner{
		o: o, wake: make(chan struct{}, 1), core: distributedapp.New(o.Core), waiting: map[distributedapp.Key]bool{},
		busy: map[distributedapp.Key]bool{}, again: map[distributedapp.Key]bool{}, shown: map[distributedapp.Key]bool{}, reading: map[distributedapp.Key]bool{},
	}
	r.state.Store(&distributedapp.Config{})
	return r
}

// Connect gives it its transport, before Start. That is made later: it calls State, Receive and Wake.
func (r *Runner) Connect(g Gossip) { r.gossip = g }

// NeedLeaderElection is false: there is no leader.
func (r *Runner) NeedLeaderElection() bool { return false }

// State is what others are told of the configuration here.
func (r *Runner) State() distributedapp.Message {
	return distributedapp.Message{Kind: distributedapp.Configure, Origin: r.o.Core.Self, Timestamp: r.o.Now().UnixNano(), Config: *r.state.Load()}
}

// Wake has the list of members looked at.
func (r *Runner) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// put queues what Start is to do.
func (r *Runner) put(f func(now time.Time)) {
	r.mu.Lock()
	r.inbox = append(r.inbox, f)
	r.mu.Unlock()
	r.Wake()
}

// Receive takes a message of another replica.
func (r *Runner) Receive(m distributedapp.Message) {
	r.mu.Lock()
	full := r.hints >= mostMessages
	if !full {
		r.hints++
	}
	r.mu.Unlock()
	if full {
		r.o.Metrics.dropped.Inc()
		return
	}
	r.put(func(now time.Time) {
		r.mu.Lock()
		r.hints--
		r.mu.Unlock()
		if c := r.core.Config(); m.Kind == distributedapp.Configure && m.Config.Version == c.Version && m.Config.Digest != c.Digest {
			r.o.Metrics.lies.Inc()
			r.o.Logger.Warn("a message has this configuration with another digest", "from", m.Origin, "version", c.Version)
		}
		r.core.Receive(m, now)
	})
}

// Start works until the context ends.
func (r *Runner) Start(ctx context.Context) error {
	defer r.wg.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	r.readConfig(ctx)
	for {
		now := r.o.Now()
		r.mu.Lock()
		todo := r.inbox
		r.inbox = nil
		r.mu.Unlock()
		for _, f := range todo {
			f(now)
		}
		timer.Reset(r.turn(ctx, now))
		select {
		case <-r.wake:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// turn does what is due, and says how long there is nothing more to do.
func (r *Runner) turn(ctx context.Context, now time.Time) time.Duration {
	r.core.Members(r.gossip.Members(), now)
	w := r.core.Due(now)
	r.gossip.Tell(w.Tell)
	for _, k := range w.Due {
		switch {
		case r.busy[k]:
			r.again[k] = true
		case !r.waiting[k]:
			r.waiting[k] = true
			r.pending = append(r.pending, k)
		}
	}
	for len(r.pending) > 0 && len(r.busy) < r.o.Workers {
		k := r.pending[0]
		r.pending = r.pending[1:]
		delete(r.waiting, k)
		r.busy[k] = true
		r.look(ctx, k)
	}
	for _, k := range w.Reads {
		if !r.reading[k] {
			r.reading[k] = true
			r.fetch(ctx, k)
		}
	}
	if w.Config {
		r.readConfig(ctx)
	}
	if !now.Before(r.countAt) {
		owned, known := r.core.Owned()
		r.o.Metrics.owned.Set(float64(owned))
		r.o.Metrics.known.Set(float64(known))
		r.countAt = now.Add(countEvery)
	}
	next := countEvery
	if !w.Next.IsZero() {
		next = min(next, max(0, w.Next.Sub(now)))
	}
	if w.Config {
		next = min(next, readPause)
	}
	return next
}
