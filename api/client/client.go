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
	"github.com/fencing-agent/fencing-agent/boottime"
)

const (
	// DefaultSocket is the path at which an agent listens unless its api.socket sets another one.
	DefaultSocket = "/var/run/fencing-agent.sock"
	// DefaultHold is longer than an agent takes to be replaced, and far shorter than Kubernetes takes to notice a dead
	// node.
	DefaultHold = 15 * time.Second
	// MinHold leaves time for one late answer.
	MinHold = time.Second
)

// maxSocketBytes is the length of sockaddr_un's path without the final zero.
const maxSocketBytes = 107

// Config configures [Follow].
type Config struct {
	Socket string        // absolute path of the agent's socket; empty: FindSocket looks for it before each connection
	Hold   time.Duration // how long the last message of the agent stays in force; 0: DefaultHold
	Log    *slog.Logger  // nil: nothing is logged; the updates contain what matters
	// Told lists deaths that the program knew before it was restarted, for FollowDeaths: a death is withdrawn if its
	// boot answers. Deaths that still hold are reported again.
	Told []NodeDeath
	// Dial replaces the connection to Socket.
	Dial func(context.Context) (net.Conn, error)
}

// withDefaults fills empty fields, and refuses values that cannot work.
func (c Config) withDefaults() (Config, error) {
	find := func() string { return c.Socket }
	if c.Socket == "" {
		c.Socket, find = FindSocket(), FindSocket
	}
	if c.Hold == 0 {
		c.Hold = DefaultHold
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", find()) }
	}
	switch {
	case len(c.Socket) > maxSocketBytes:
		return c, fmt.Errorf("agent socket %s: the path has %d bytes, but must have at most %d: choose a shorter one", c.Socket, len(c.Socket), maxSocketBytes)
	case c.Socket[0] != '/':
		return c, fmt.Errorf("agent socket %s: the path must be absolute", c.Socket)
	case c.Hold < MinHold:
		return c, fmt.Errorf("the hold time is %v, but must be at least %v: the agent is asked once a second", c.Hold, MinHold)
	}
	return c, nil
}

// Follow follows the agent until ctx ends and calls use with every update. The first call comes when the agent has
// answered, or has not answered for the hold time; further calls come at each change of the state. Follow returns nil
// after ctx has ended and use has returned, and an error at once if cfg cannot work. It may be called again, and
// several times at once.
func Follow(ctx context.Context, cfg Config, use func(Update)) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return fmt.Errorf("follow the agent: %w", err)
	}
	if use == nil {
		return errors.New("follow the agent: no callback given")
	}
	newFollower(cfg, use).run(ctx)
	return nil
}

func newFollower(cfg Config, use func(Update)) *follower {
	return &follower{
		cfg: cfg, use: use, ledger: newLedger(), word: time.Now(),
		wake: boottime.NewWake(), turn: make(chan struct{}, 1), first: true,
		told: State{Available: map[string]*fencingv1.Node{}, Left: map[string]time.Time{}},
	}
}

// run returns after ctx has ended and all goroutines with it.
func (f *follower) run(ctx context.Context) {
	var connections sync.WaitGroup
	connections.Go(func() {
		f.cfg.connect(ctx, f.session, func(err error) { f.update(func() { f.connected, f.err = false, err }) })
	})
	f.deliver(ctx)
	connections.Wait()
	f.readers.Wait()
}

// follower is one call of Follow.
type follower struct {
	cfg  Config
	wake boottime.Wake // there may be something for the callback

	// readers counts the goroutine that reads the stream, and earlier readers whose callback took too long.
	readers sync.WaitGroup

	turn  chan struct{} // of size one: full while a goroutine calls back; that goroutine owns the fields below
	use   func(Update)
	told  State
	first bool // there was no callback yet

	mu sync.Mutex // guards the fields below; never held while something blocks
	ledger
	connected bool
	err       error
	word      time.Time // when the agent was last heard; at first, when Follow began
}

// update runs change under the mutex and triggers the callback.
func (f *follower) update(change func()) {
	f.mu.Lock()
	change()
	f.mu.Unlock()
	f.wake.Signal()
}

// heard records that the agent has sent something.
func (f *follower) heard() {
	f.mu.Lock()
	f.word = time.Now()
	f.mu.Unlock()
	f.wake.Signal() // after a silence longer than the hold time, this message puts the set in force again
}

// deliver calls back until ctx ends. The readers of events make some calls themselves.
func (f *follower) deliver(ctx context.Context) {
	timer := time.NewTimer(f.cfg.Hold)
	defer timer.Stop()
	for {
		f.turn <- struct{}{}
		news, wait := f.tell(ctx)
		if news {
			continue
		}
		// A reader may call back for an event meanwhile. This wait is then not too long, since the hold time counts
		// from a later message of the agent.
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		case <-timer.C:
		}
	}
}

// tell calls back if there is news, and releases turn. Without news it returns the wait that take returns.
func (f *follower) tell(ctx context.Context) (news bool, wait time.Duration) {
	defer func() { <-f.turn }()
	if ctx.Err() != nil {
		return false, f.cfg.Hold
	}
	u, news, wait := f.take()
	if news {
		f.use(u)
	}
	return news, wait
}

// take brings told up to date. Without news it returns how long there can be none unless the follower is woken. The
// caller has the turn.
func (f *follower) take() (_ Update, news bool, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	told := &f.told
	silent := time.Since(f.word)
	inForce := f.answered && silent < f.cfg.Hold
	overdue := f.first && silent >= f.cfg.Hold
	if !overdue && !f.dirty && inForce == told.InForce && (f.first || f.connected == told.Connected) {
		if wait = f.cfg.Hold - silent; wait <= 0 {
			wait = f.cfg.Hold // only a message of the agent makes a difference
		}
		return Update{}, false, wait
	}
	u := Update{Edges: f.edges()}
	for _, e := range u.Edges {
		name := e.Node.GetName()
		if e.Type == fencingv1.EventType_LEFT {
			delete(told.Available, name)
			told.Left[name] = e.Time
		} else {
			told.Available[name] = e.Node
			delete(told.Left, name)
		}
	}
	if f.recount {
		told.Left, f.recount = maps.Clone(f.left), false
	}
	f.dirty, f.first = false, false
	told.InForce, told.Connected, told.Err, told.Revision = inForce, f.connected, f.err, f.revision
	u.State = *told
	return u, true, 0
}

// edges returns the changes that the callback has not seen yet, in the order in which they happened.
func (l *ledger) edges() []Edge {
	if len(l.pending) == 0 {
		return nil
	}
	changes := slices.SortedFunc(maps.Values(l.pending), func(a, b *change) int { return cmp.Compare(a.order, b.order) })
	edges := make([]Edge, 0, len(changes))
	for _, c := range changes {
		if c.left != nil {
			edges = append(edges, *c.left)
		}
		if c.join != nil {
			edges = append(edges, *c.join)
		}
	}
	// Use a new map instead of clearing this one: iterating over a map takes as long as at its largest size ever, and
	// it happens for each event.
	l.pending = map[string]*change{}
	return edges
}
