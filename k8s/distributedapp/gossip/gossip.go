package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/k8s/distributedapp"
)

const (
	label       = "distributedapp-operator"
	leaveWithin = 2 * time.Second
	reclaim     = 30 * time.Second // a name may come back with another address after that
	mostWaiting = 256              // messages for one member
)

// Options of a replica. All but Peers, Keyring and the addresses are needed.
type Options struct {
	Name           string // of the pod; one identity everywhere
	Version        string // of the program, for people
	Bind           string // address
	Port           int    // 0: any
	Advertise      string // address; empty: that of the machine
	AdvertisePort  int    // 0: Port
	Peers          []string
	Rejoin         time.Duration // the peers are looked for so often
	ProbeInterval  time.Duration
	ProbeTimeout   time.Duration
	TCPTimeout     time.Duration
	Keyring        *memberlist.Keyring // nil: neither encrypted nor authenticated
	State          func() distributedapp.Message
	Receive        func(distributedapp.Message)
	Changed        func() // the list of members
	Logger         *slog.Logger
	Metrics        *Metrics
	lookup         func(ctx context.Context, host string) ([]string, error) // tests
	pushPullsEvery time.Duration                                            // tests
}

// Gossip is one replica among the others.
type Gossip struct {
	o    Options
	list *memberlist.Memberlist

	mu    sync.Mutex
	lanes map[string]*lane // by member
	wg    sync.WaitGroup   // of lanes
	ended bool
}

// lane is what waits for one member.
type lane struct {
	waiting [][]byte
	busy    bool
}

// New listens. It joins nobody yet.
func New(o Options) (*Gossip, error) {
	if o.lookup == nil {
		o.lookup = net.DefaultResolver.LookupHost
	}
	g := &Gossip{o: o, lanes: map[string]*lane{}}
	c := memberlist.DefaultLocalConfig()
	c.Name, c.BindAddr, c.BindPort = o.Name, o.Bind, o.Port
	c.AdvertiseAddr, c.AdvertisePort = o.Advertise, o.AdvertisePort
	if c.AdvertisePort == 0 {
		c.AdvertisePort = o.Port
	}
	c.ProbeInterval, c.ProbeTimeout, c.TCPTimeout = o.ProbeInterval, o.ProbeTimeout, o.TCPTimeout
	c.PushPullInterval = 30 * time.Second
	if o.pushPullsEvery > 0 {
		c.PushPullInterval = o.pushPullsEvery
	}
	c.DeadNodeReclaimTime = reclaim
	c.Label, c.Keyring = label, o.Keyring
	c.GossipVerifyIncoming, c.GossipVerifyOutgoing = true, true
	c.Delegate, c.Events = delegate{g}, delegate{g}
	c.LogOutput, c.Logger = nil, slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)
	list, err := memberlist.Create(c)
	if err != nil {
		return nil, fmt.Errorf("gossip on %s: %w", net.JoinHostPort(o.Bind, strconv.Itoa(o.Port)), err)
	}
	g.list = list
	return g, nil
}

// Members are the names of the replicas that this one knows of, itself included.
func (g *Gossip) Members() []string {
	var names []string
	for _, n := range g.list.Members() {
		names = append(names, n.Name)
	}
	g.o.Metrics.members.Set(float64(len(names)))
	return names
}

// Address is where this replica is reached.
func (g *Gossip) Address() string { return g.list.LocalNode().Address() }

// Tell sends messages to all others. It does not wait.
func (g *Gossip) Tell(messages []distributedapp.Message) {
	if len(messages) == 0 {
		return
	}
	others := slices.DeleteFunc(g.list.Members(), func(n *memberlist.Node) bool { return n.Name == g.o.Name })
	for _, m := range messages {
		text, err := Encode(m)
		if err != nil { // names of objects have 253 bytes at most: three of them fit
			g.o.Logger.Warn("a message was not sent", "kind", m.Kind, "app", m.Namespace+"/"+m.Name, "err", err)
			continue
		}
		for _, n := range others {
			g.o.Metrics.count(out, m.Kind, len(text))
			g.put(n, text)
		}
	}
}

// put lets a message wait for its member. One that takes nothing keeps nobody else's waiting.
func (g *Gossip) put(n *memberlist.Node, text []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lanes[n.Name]
	if l == nil {
		l = &lane{}
		g.lanes[n.Name] = l
	}
	if g.ended || len(l.waiting) >= mostWaiting {
		g.o.Metrics.dropped.Inc()
		return
	}
	l.waiting = append(l.waiting, text)
	if !l.busy {
		l.busy = true
		g.wg.Go(func() { g.drain(n, l) })
	}
}

func (g *Gossip) drain(n *memberlist.Node, l *lane) {
	for {
		g.mu.Lock()
		if len(l.waiting) == 0 || g.ended {
			l.busy = false
			delete(g.lanes, n.Name)
			g.mu.Unlock()
			return
		}
		text := l.waiting[0]
		l.waiting = l.waiting[1:]
		g.mu.Unlock()
		if err := g.list.SendReliable(n, text); err != nil {
			g.o.Metrics.dropped.Inc()
			g.o.Logger.Debug("a message did not arrive", "member", n.Name, "err", err)
		}
	}
}

// Run looks for peers until the context ends, and leaves then.
func (g *Gossip) Run(ctx context.Context) error {
	tick := time.NewTicker(g.o.Rejoin)
	defer tick.Stop()
	alone := false
	for {
		err := g.join(ctx)
		if ctx.Err() != nil {
			return g.leave()
		}
		if err != nil {
			g.o.Metrics.joins.Inc()
			if !alone {
				g.o.Logger.Warn("cannot join peers; trying again", "every", g.o.Rejoin, "err", err)
			}
		}
		alone = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return g.leave()
		}
	}
}

// join joins all peers that are not members yet.
func (g *Gossip) join(ctx context.Context) error {
	var found []string
	var errs []error
	for _, p := range g.o.Peers {
		host, port, err := net.SplitHostPort(p)
		if err == nil {
			var hosts []string
			hosts, err = g.o.lookup(ctx, host)
			for _, h := range hosts {
				found = append(found, net.JoinHostPort(h, port))
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("peer %s: %w", p, err))
		}
	}
	for _, n := range g.list.Members() {
		found = slices.DeleteFunc(found, func(a string) bool { return a == n.Address() })
	}
	if len(found) > 0 {
		if _, err := g.list.Join(found); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// leave announces the end of this replica, so that nobody waits for it.
func (g *Gossip) leave() error {
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	if err := g.list.Leave(leaveWithin); err != nil { // then the others find out by probes
		g.o.Logger.Debug("cannot announce the end of this replica", "err", err)
	}
	err := g.list.Shutdown()
	sent := make(chan struct{})
	go func() { defer close(sent); g.wg.Wait() }()
	limit := time.NewTimer(leaveWithin)
	defer limit.Stop()
	select {
	case <-sent:
	case <-limit.C: // the last messages are for one that takes none
	}
	return err
}
