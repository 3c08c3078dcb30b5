package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

const (
	// DefaultSocket is where an agent listens unless its api.socket says otherwise.
	DefaultSocket = "/var/run/fencing-agent.sock"
	// DefaultHold is longer than an agent takes to be replaced, and far shorter than
	// Kubernetes takes to notice a dead node.
	DefaultHold = 15 * time.Second
	// MinHold leaves room for one answer that is late.
	MinHold = time.Second
)

// maxSocketBytes is the room in sockaddr_un without the final zero.
const maxSocketBytes = 107

// Config configures [Follow].
type Config struct {
	Socket string        // absolute path of the agent's socket; empty: DefaultSocket
	Hold   time.Duration // how long the agent's last word stays in force; 0: DefaultHold
	Log    *slog.Logger  // nil: nothing is logged; what matters is in the updates
	// Dial replaces the connection to Socket.
	Dial func(context.Context) (net.Conn, error)
}

// withDefaults fills what is empty, and refuses what cannot work.
func (c Config) withDefaults() (Config, error) {
	if c.Socket == "" {
		c.Socket = DefaultSocket
	}
	if c.Hold == 0 {
		c.Hold = DefaultHold
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Dial == nil {
		path := c.Socket
		c.Dial = func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }
	}
	switch {
	case len(c.Socket) > maxSocketBytes:
		return c, fmt.Errorf("agent socket %s: the path has %d bytes, a socket's may have %d: choose a shorter one", c.Socket, len(c.Socket), maxSocketBytes)
	case c.Socket[0] != '/':
		return c, fmt.Errorf("agent socket %s: the path must be absolute", c.Socket)
	case c.Hold < MinHold:
		return c, fmt.Errorf("hold time %v: at least %v is needed, the agent is asked once a second", c.Hold, MinHold)
	}
	return c, nil
}

// Follow follows the agent until ctx ends and calls use with every update: first when the
// agent has answered, or has not for the hold time; then at each change of the state. It
// returns nil after ctx has ended and use has returned, and an error at once if cfg cannot
// work. It may be called again, and several times at once.
func Follow(ctx context.Context, cfg Config, use func(Update)) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return fmt.Errorf("follow the agent: %w", err)
	}
	if use == nil {
		return errors.New("follow the agent: no callback given")
	}
	f := &follower{cfg: cfg, ledger: newLedger(), word: time.Now(), wake: make(chan struct{}, 1)}
	var connections sync.WaitGroup
	connections.Go(func() { f.connect(ctx) })
	f.deliver(ctx, use)
	connections.Wait()
	return nil
}

// follower is one call of Follow.
type follower struct {
	cfg  Config
	wake chan struct{} // of size one: there may be something for the callback

	mu sync.Mutex // guards what follows; never held while something blocks
	ledger
	connected bool
	err       error
	word      time.Time // when the agent was heard last; before that when Follow began
}

// update runs change under the mutex and wakes the goroutine that calls back.
func (f *follower) update(change func()) {
	f.mu.Lock()
	change()
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// heard notes a word of the agent.
func (f *follower) heard() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.word = time.Now()
	// After a silence longer than the hold time this word puts the set in force again.
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// deliver calls use until ctx ends. It owns what use sees.
func (f *follower) deliver(ctx context.Context, use func(Update)) {
	told := State{Available: map[string]*fencingv1.Node{}, Left: map[string]time.Time{}}
	first := true
	timer := time.NewTimer(f.cfg.Hold)
	defer timer.Stop()
	for {
		u, news, wait := f.take(&told, first)
		if news {
			first = false
			use(u)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		case <-timer.C:
		}
	}
}

// take brings told up to date. Without news it returns how long there can be none unless
// the follower is woken.
func (f *follower) take(told *State, first bool) (_ Update, news bool, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	silent := time.Since(f.word)
	inForce := f.answered && silent < f.cfg.Hold
	overdue := first && silent >= f.cfg.Hold
	if !overdue && !f.dirty && inForce == told.InForce && (first || f.connected == told.Connected) {
		if wait = f.cfg.Hold - silent; wait <= 0 {
			wait = f.cfg.Hold // only a word of the agent makes a difference
		}
		return Update{}, false, wait
	}
	u := Update{Edges: f.edges()}
	for _, e := range u.Edges {
		if e.Type == fencingv1.EventType_LEFT {
			delete(told.Available, e.Node.GetName())
		} else {
			told.Available[e.Node.GetName()] = e.Node
		}
	}
	if f.dirty {
		told.Left = maps.Clone(f.left)
	}
	f.dirty = false
	told.InForce, told.Connected, told.Err, told.Revision = inForce, f.connected, f.err, f.revision
	u.State = *told
	return u, true, 0
}

// edges takes what the callback lacks, in the order in which it came to be.
func (l *ledger) edges() []Edge {
	if len(l.pending) == 0 {
		return nil
	}
	changes := slices.SortedFunc(maps.Values(l.pending), func(a, b *change) int { return cmp.Compare(a.order, b.order) })
	var edges []Edge
	for _, c := range changes {
		if c.left != nil {
			edges = append(edges, *c.left)
		}
		if c.join != nil {
			edges = append(edges, *c.join)
		}
	}
	// Not cleared: walking a map takes as long as it was ever great, here for each event.
	l.pending = map[string]*change{}
	return edges
}
