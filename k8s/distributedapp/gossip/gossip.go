package gossip

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/k8s/distributedapp"
)

const (
	label       = "distributedapp-operator"
	leaveWithin = 2 * time.Second
	reclaim     = 30 * time.Second // after that a name may return with another address
	mostWaiting = 64               // messages on their way to one member
)

// Options configures a replica. All fields except Keyring and the addresses are required.
type Options struct {
	Name          string // of the pod; one identity everywhere
	Version       string // of the program, for people
	Bind          string // the address to listen on
	Port          int    // 0: any
	Advertise     string // the address for other replicas; empty: that of the machine
	AdvertisePort int    // 0: Port
	Peers         []string
	Rejoin        time.Duration // how often the peers are looked for
	ProbeInterval time.Duration
	ProbeTimeout  time.Duration
	Keyring       *memberlist.Keyring // nil: neither encrypted nor authenticated
	State         func() distributedapp.Message
	Receive       func(distributedapp.Message)
	Logger        *slog.Logger
	Metrics       *Metrics
}

// Gossip is this replica's connection to the others.
type Gossip struct {
	o    Options
	list *memberlist.Memberlist

	mu      sync.Mutex
	changed time.Time      // when the list of members changed
	waiting map[string]int // messages, by member
	ended   bool
}

// New listens. It does not join any peer yet.
func New(o Options) (*Gossip, error) {
	g := &Gossip{o: o, waiting: map[string]int{}}
	c := memberlist.DefaultLocalConfig()
	c.Name, c.BindAddr, c.BindPort = o.Name, o.Bind, o.Port
	c.AdvertiseAddr, c.AdvertisePort = o.Advertise, o.AdvertisePort
	if c.AdvertisePort == 0 {
		c.AdvertisePort = o.Port
	}
	c.ProbeInterval, c.ProbeTimeout, c.TCPTimeout = o.ProbeInterval, o.ProbeTimeout, 30*time.Second
	c.PushPullInterval = 30 * time.Second
	c.DeadNodeReclaimTime = reclaim
	c.Label, c.Keyring = label, o.Keyring
	c.Delegate, c.Events = delegate{g}, delegate{g}
	c.LogOutput, c.Logger = nil, slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)
	list, err := memberlist.Create(c)
	if err != nil {
		return nil, fmt.Errorf("gossip on %s: %w", net.JoinHostPort(o.Bind, strconv.Itoa(o.Port)), err)
	}
	g.list = list
	return g, nil
}

// Members lists the names of the replicas that this one knows, including itself, and returns when that list last
// changed.
func (g *Gossip) Members() (names []string, changed time.Time) {
	for _, n := range g.list.Members() {
		names = append(names, n.Name)
	}
	g.o.Metrics.members.Set(float64(len(names)))
	g.mu.Lock()
	defer g.mu.Unlock()
	return names, g.changed
}

// Address returns the address at which other replicas reach this one.
func (g *Gossip) Address() string { return g.list.LocalNode().Address() }

// Tell sends a message to all other replicas. It does not wait.
func (g *Gossip) Tell(m distributedapp.Message) {
	text, err := Encode(m)
	if err != nil { // names of objects have 253 bytes at most: three of them fit
		g.o.Logger.Warn("cannot send a message", "kind", m.Kind, "app", m.Namespace+"/"+m.Name, "err", err)
		return
	}
	for _, n := range g.list.Members() {
		if n.Name != g.o.Name {
			g.o.Metrics.count(out, m.Kind, len(text))
			g.send(n, text)
		}
	}
}

// send sends a message to one member. A member that accepts nothing does not delay the others, and uses a bounded
// amount of memory.
func (g *Gossip) send(n *memberlist.Node, text []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended || g.waiting[n.Name] >= mostWaiting {
		g.o.Metrics.dropped.Inc()
		return
	}
	g.waiting[n.Name]++
	go func() { // it ends with memberlist's timeout
		if err := g.list.SendReliable(n, text); err != nil {
			g.o.Metrics.dropped.Inc()
			g.o.Logger.Debug("a message did not arrive", "member", n.Name, "err", err)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.waiting[n.Name]--; g.waiting[n.Name] == 0 {
			delete(g.waiting, n.Name)
		}
	}()
}

// Run looks for peers until the context ends. Then it leaves.
func (g *Gossip) Run(ctx context.Context) error {
	tick := time.NewTicker(g.o.Rejoin)
	defer tick.Stop()
	for alone := false; ; {
		_, err := g.list.Join(g.o.Peers)
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

// leave announces the end of this replica, so that the others do not wait for it. It waits a limited time: the last
// messages may be for a member that accepts none.
func (g *Gossip) leave() error {
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	if err := g.list.Leave(leaveWithin); err != nil { // the others then find out by probes
		g.o.Logger.Debug("cannot announce the end of this replica", "err", err)
	}
	return g.list.Shutdown()
}

// delegate holds the callbacks of memberlist. They must not block.
type delegate struct{ g *Gossip }

// NodeMeta returns the version of the program.
func (d delegate) NodeMeta(limit int) []byte {
	v := []byte(d.g.o.Version)
	return v[:min(len(v), limit)]
}

// NotifyMsg handles a message.
func (d delegate) NotifyMsg(text []byte) {
	m, err := Decode(text)
	if err != nil {
		d.g.o.Metrics.refused.Inc()
		d.g.o.Logger.Debug("refused a message", "err", err)
		return
	}
	d.g.o.Metrics.count(in, m.Kind, len(text))
	d.g.o.Receive(m)
}

// GetBroadcasts returns none: messages are sent to each member by TCP.
func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is sent to a replica that joins, and to each replica from time to time.
func (d delegate) LocalState(bool) []byte {
	text, err := Encode(d.g.o.State())
	if err != nil {
		d.g.o.Logger.Warn("cannot send the state", "err", err)
	}
	return text
}

// MergeRemoteState handles the state of another replica.
func (d delegate) MergeRemoteState(text []byte, _ bool) {
	if len(text) > 0 {
		d.NotifyMsg(text)
	}
}

func (d delegate) NotifyJoin(n *memberlist.Node) {
	d.change()
	d.g.o.Logger.Info("a replica has joined", "member", n.Name, "address", n.Address(), "version", string(n.Meta))
}

func (d delegate) NotifyLeave(n *memberlist.Node) {
	d.change()
	d.g.o.Logger.Info("a replica is gone", "member", n.Name)
}

func (d delegate) NotifyUpdate(*memberlist.Node) {}

func (d delegate) change() {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	d.g.changed = time.Now()
}
