package gossip

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/iface"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

const (
	keyInterval = 10 * time.Second // between two looks at the file of keys
	stopLimit   = 5 * time.Second  // for an instance to stop
)

// Links finds this node's side of each SystemNetwork and follows it, as iface.Find and
// iface.Watch do. Either both are set or none.
type Links struct {
	Find  func(iface.Query) (iface.Local, error)
	Watch func(context.Context, iface.WatchConfig) error
}

// RealLinks asks the kernel.
func RealLinks() Links { return Links{Find: iface.Find, Watch: iface.Watch} }

// Local finds this node's side of a network.
func (l Links) Local(sn *config.SystemNetwork) (iface.Local, error) {
	return l.Find(iface.Query{Network: sn.Name, Interface: sn.Interface, CIDR: sn.CIDR, Address: sn.Address})
}

// Reports takes what the instances find out, with peers by their index in a roster. The methods are called
// from the instances' goroutines, under their locks: they must not block, and not call back.
type Reports interface {
	MemberChanged(network, peer int, alive bool, at boottime.Instant)
	Answered(a netgossip.Answer)
	Vouched(network int, at boottime.Instant)
	Missed(network, peer int, since boottime.Instant, void bool)
	Heard(network, peer int, at boottime.Instant)
	// Silent takes, whenever it changes, whom this node and others miss (swim.DoubtsConfig).
	Silent(peers []netgossip.Silence)
}

// Config is what Networks need. All functions are called from goroutines of the gossip and must not block.
type Config struct {
	Config *config.Config
	Roster *roster.Roster // that the first instances count by
	Listen swim.Listener  // nil: real sockets
	Links  Links
	Clock  boottime.Clock
	Logger *slog.Logger
	// Registry takes the metrics of the gossip.
	Registry prometheus.Registerer
	// AddressesFollow says that others learn this node's address where it is published: one that is not
	// that of the list of members is no error.
	AddressesFollow bool

	// Reports returns where the reports of instances go that count by a roster.
	Reports func(*roster.Roster) Reports
	// Stalled reports whether nobody stands behind the statement any more, since the loop does not run.
	Stalled func() bool
	// HandsOver returns a list that this node goes by, nil if it has none of that name (swim.Config).
	HandsOver func(roster.Ref) *roster.Roster
	// Handed takes a list that Fetch has asked for.
	Handed func(*roster.Roster)
	// LinkChanged learns that a network of this node has gone down or come up. A network that comes up calls
	// AddressChanged first, since its address may be another one.
	LinkChanged    func(network int, up bool)
	AddressChanged func(network string, to netip.Addr)
}

// Networks is this node's gossip on all of its SystemNetworks.
type Networks struct {
	cfg     Config
	log     *slog.Logger
	keys    *memberlist.Keyring // nil: no encryption
	metrics *metrics
	alarms  *nameAlarms
	doubts  *swim.Doubts // nil: this node has none

	all     []*network // by index of the SystemNetwork; complete before the first instance starts
	said    atomic.Pointer[spoken]
	relayed atomic.Pointer[netgossip.Relay] // what to tell of the LUN or the Lease; nil: nothing

	demanding sync.Mutex
	demand    netgossip.Demand

	follow    chan *roster.Roster // capacity 1: what the instances are to count by
	following sync.Mutex          // held while an instance is replaced, and for good when all have stopped
}

// network is one SystemNetwork.
type network struct {
	name    string
	present atomic.Pointer[instance]
}

// now is the instance that is there at the moment.
func (n *network) now() *instance { return n.present.Load() }

// New prepares the gossip. It opens nothing.
func New(c Config) *Networks {
	m := newMetrics(c.Registry, c.Config.SystemNetworks)
	return &Networks{cfg: c, log: c.Logger, metrics: m, alarms: newNameAlarms(c.Logger, m.conflicts), follow: make(chan *roster.Roster, 1)}
}

// Start finds this node's address on every SystemNetwork and starts an instance on each. What has to
// run in the background is handed to background, and ends with the context that it is given.
func (n *Networks) Start(background func(func(context.Context))) (stop func(), err error) {
	settings := n.cfg.Config
	if file := settings.Gossip.KeyFile; file != "" {
		if n.keys, err = swim.LoadKeyring(file, n.log); err != nil {
			return nil, err
		}
		background(func(ctx context.Context) { swim.FollowKeyring(ctx, file, n.keys, keyInterval, n.log) })
	}
	background(n.alarms.run)
	if settings.Gossip.LeftByDoubt {
		n.doubts = swim.NewDoubts(swim.DoubtsConfig{
			Networks: len(settings.SystemNetworks), Policy: settings.Reachability.Policy(), Clock: n.cfg.Clock,
			Left: func(r *roster.Roster, silent []netgossip.Silence) { n.cfg.Reports(r).Silent(silent) },
		})
		background(n.doubts.Run)
	}
	for i, sn := range settings.SystemNetworks {
		in, err := n.open(i, n.cfg.Roster)
		if err != nil {
			n.stop()
			return nil, err
		}
		w := &network{name: sn.Name}
		w.present.Store(in)
		n.all = append(n.all, w)
	}
	n.warnUnpinned()
	for _, w := range n.all {
		if err := w.now().swim.Start(); err != nil {
			n.stop()
			return nil, fmt.Errorf("network %s: %w", w.name, err)
		}
		n.showTuning(w.name, w.now().tuning)
	}
	background(n.watchLinks)
	background(n.followRosters)
	return n.stop, nil
}

// stop ends all instances, without a word to the peers.
func (n *Networks) stop() {
	var wg sync.WaitGroup
	n.following.Lock() // for good: nothing is started any more
	for _, w := range n.all {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
			defer cancel()
			if err := w.now().swim.Stop(ctx, false); err != nil {
				n.log.Warn("gossip did not stop in time", "network", w.name, "error", err)
			}
		})
	}
	wg.Wait()
}

// watchLinks follows carrier and addresses of the networks.
func (n *Networks) watchLinks(ctx context.Context) {
	c := iface.WatchConfig{Clock: n.cfg.Clock, Logger: n.log, Changed: func(change iface.Change) {
		if change.Up {
			w := n.all[change.Network]
			w.now().swim.Rebind(change.Local.Interface, change.Local.Index)
			n.cfg.AddressChanged(w.name, change.Local.Address)
		}
		n.cfg.LinkChanged(change.Network, change.Up)
	}}
	for _, w := range n.all {
		c.Networks = append(c.Networks, w.now().local)
	}
	if err := n.cfg.Links.Watch(ctx, c); ctx.Err() == nil {
		n.log.Error("watching network interfaces ended", "error", err)
	}
}

// each calls the instances of all networks.
func (n *Networks) each(do func(*swim.Instance)) {
	for _, w := range n.all {
		do(w.now().swim)
	}
}

// Renew makes all evidence of a network void: it has been down.
func (n *Networks) Renew(network int) { n.all[network].now().swim.Renew() }

// SetDemand tells the networks how closely to watch the peers.
func (n *Networks) SetDemand(d netgossip.Demand) {
	n.demanding.Lock()
	defer n.demanding.Unlock()
	if d == n.demand {
		return
	}
	n.demand = d
	n.each(func(in *swim.Instance) { in.SetDemand(d) })
}

// Ask has peers asked for their statements, by the network to do it on. A network that counts by another roster for a
// moment asks others, which makes nothing believed.
func (n *Networks) Ask(peers []roster.Set) {
	for k, w := range n.all {
		w.now().swim.Ask(peers[k])
	}
}

// Fetch asks one of the peers that have a list for it. Each try asks another peer, on another network.
func (n *Networks) Fetch(holders []string, self, try int, list roster.Ref) {
	// Begun at another place by each node: one that goes by the list may be all that many lack.
	peer := holders[(self+try/len(n.all))%len(holders)]
	n.all[try%len(n.all)].now().swim.Fetch(peer, list)
}

// State is how the gossip of one network stands, for people.
type State struct {
	Name   string
	Local  iface.Local // this node's side of it
	Tuning Tuning
	Health int      // memberlist's score of this node's health; 0: well
	KeyIDs []string // fingerprints of the keys in use

	Suspects []string // members that owe this node an answer
}

// States is how the gossip of all networks stands, in their order.
func (n *Networks) States() []State {
	out := make([]State, 0, len(n.all))
	ids := swim.Fingerprints(n.keys)
	for _, w := range n.all {
		in := w.now()
		out = append(out, State{Name: w.name, Local: in.local, Tuning: in.tuning, Health: in.swim.Stats().Health, KeyIDs: ids, Suspects: in.swim.Suspects()})
	}
	return out
}
