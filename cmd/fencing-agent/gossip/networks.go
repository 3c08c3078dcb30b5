package gossip

import (
	"context"
	"errors"
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

// Links finds this node's side of each SystemNetwork and follows it, as iface.Find and iface.Watch do. Either both
// functions are set or none.
type Links struct {
	Find  func(iface.Query) (iface.Local, error)
	Watch func(context.Context, iface.WatchConfig) error
}

// RealLinks asks the kernel.
func RealLinks() Links { return Links{Find: iface.Find, Watch: iface.Watch} }

// Local finds this node's side of a network. listed is this node's address on that network in the list of members; the
// zero Addr: none is known.
func (l Links) Local(sn *config.SystemNetwork, listed netip.Addr) (iface.Local, error) {
	return l.Find(iface.Query{Network: sn.Name, Interface: sn.At.Interface, CIDR: sn.At.CIDR, Address: sn.At.Address, Listed: listed})
}

// Reports handles the results of the instances, with peers by their index in a roster. The methods are called from the
// instances' goroutines, under their locks: they must not block or call back.
type Reports interface {
	MemberChanged(network, peer int, alive bool, at boottime.Instant)
	Answered(a netgossip.Answer)
	Vouched(network int, at boottime.Instant)
	Missed(network, peer int, since boottime.Instant, void bool)
	Heard(network, peer int, at boottime.Instant)
	// Silent reports which peers this node and others miss, whenever that changes (swim.DoubtsConfig).
	Silent(peers []netgossip.Silence)
}

// Config is what Networks need. All functions are called from goroutines of the gossip and must not block.
type Config struct {
	Config *config.Config
	Roster *roster.Roster // of the first instances
	Listen swim.Listener  // nil: real sockets
	Links  Links
	Clock  boottime.Clock
	Logger *slog.Logger
	// Registry takes the metrics of the gossip.
	Registry prometheus.Registerer
	// AddressesFollow says that this node publishes its address and others learn it from there, so an address that
	// differs from the list of members is not an error.
	AddressesFollow bool

	// Reports returns the receiver for the reports of instances that use a roster.
	Reports func(*roster.Roster) Reports
	// Stalled reports whether the statement is no longer valid, since the loop does not run.
	Stalled func() bool
	// HandsOver returns a list that this node uses, nil if it uses no such list (swim.Config).
	HandsOver func(roster.Ref) *roster.Roster
	// Handed gets a list that Fetch has asked for.
	Handed func(*roster.Roster)
	// LinkChanged is called when a network of this node goes down or comes up. Before a network comes up,
	// AddressChanged is called, since the address may have changed.
	LinkChanged    func(network int, up bool)
	AddressChanged func(network string, to netip.Addr)
	// Away is called with the reason why this node has no gossip on a network, and with nil once it has. A missing
	// network counts as down.
	Away func(network string, why error)
}

// Networks is this node's gossip on all of its SystemNetworks.
type Networks struct {
	cfg     Config
	log     *slog.Logger
	keys    *memberlist.Keyring // nil: no encryption
	metrics *metrics
	alarms  *nameAlarms
	doubts  *swim.Doubts // nil: this node has none

	all     []*network // by index of the SystemNetwork; complete before the first instance is opened
	said    atomic.Pointer[spoken]
	relayed atomic.Pointer[netgossip.Relay] // the latest relay about the LUN or the Lease; nil: there is none

	demanding sync.Mutex
	demand    netgossip.Demand

	follow    chan *roster.Roster // capacity 1: the roster that the instances have to use
	following sync.Mutex          // held while an instance is replaced, and for good when all have stopped
}

// network is one SystemNetwork.
type network struct {
	name    string
	present atomic.Pointer[instance] // nil: the network is missing
	// The goroutine that follows rosters owns the rest.
	unwatch func() // ends the watch of its interface
	lost    bool   // it was reported as down, since it is missing
}

// now is the present instance, nil if the network is missing.
func (n *network) now() *instance { return n.present.Load() }

// do calls the present instance, if there is one.
func (n *network) do(f func(*swim.Instance)) {
	if in := n.now(); in != nil {
		f(in.swim)
	}
}

// New prepares the gossip. It opens nothing.
func New(c Config) *Networks {
	m := newMetrics(c.Registry, c.Config.SystemNetworks)
	return &Networks{cfg: c, log: c.Logger, metrics: m, alarms: newNameAlarms(c.Logger, m.conflicts), follow: make(chan *roster.Roster, 1)}
}

// Start starts an instance on every SystemNetwork on which this node has an address. A network without an address is
// missing, like one whose cable is pulled later; it is looked for in the background. Start returns an error only for
// faults that waiting cannot repair. It passes its background work to background; that ends with its context.
func (n *Networks) Start(background func(func(context.Context))) (stop func(), err error) {
	settings := n.cfg.Config
	if file := settings.Gossip.KeyFile; file != "" {
		if n.keys, err = swim.LoadKeyring(file, n.log); err != nil {
			return nil, err
		}
		background(func(ctx context.Context) { swim.FollowKeyring(ctx, file, n.keys, keyInterval, n.log) })
	}
	background(n.alarms.run)
	if settings.Experimental.LeftByDoubt {
		n.doubts = swim.NewDoubts(swim.DoubtsConfig{
			Networks: len(settings.SystemNetworks), Policy: settings.Reachability.Policy(), Clock: n.cfg.Clock,
			Left: func(r *roster.Roster, silent []netgossip.Silence) { n.cfg.Reports(r).Silent(silent) },
		})
		background(n.doubts.Run)
	}
	for _, sn := range settings.SystemNetworks {
		n.all = append(n.all, &network{name: sn.Name, unwatch: func() {}})
	}
	opened := make([]*instance, len(n.all))
	for i, w := range n.all {
		in, err := n.open(i, n.cfg.Roster)
		var no *wrongError
		switch {
		case errors.As(err, &no):
			n.stop()
			return nil, err
		case err != nil:
			n.lose(i, err)
		default:
			w.present.Store(in)
			opened[i] = in
		}
	}
	n.warnUnpinned(n.all...)
	for i, in := range opened {
		if in == nil {
			continue
		}
		if err := in.swim.Start(); err != nil {
			limit, cancel := context.WithTimeout(context.Background(), stopLimit)
			_ = in.swim.Stop(limit, false) // the error of the start matters more
			cancel()
			n.lose(i, fmt.Errorf("network %s: %w", n.all[i].name, err))
			continue
		}
		n.cfg.Away(n.all[i].name, nil)
		n.showTuning(n.all[i].name, in.tuning)
	}
	background(n.followRosters)
	return n.stop, nil
}

// stop ends all instances, without telling the peers.
func (n *Networks) stop() {
	var wg sync.WaitGroup
	n.following.Lock() // for good: nothing is started any more
	for _, w := range n.all {
		wg.Go(func() {
			w.do(func(in *swim.Instance) {
				ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
				defer cancel()
				if err := in.Stop(ctx, false); err != nil {
					n.log.Warn("gossip did not stop in time", "network", w.name, "error", err)
				}
			})
		})
	}
	wg.Wait()
}

// each calls the instances of all networks.
func (n *Networks) each(do func(*swim.Instance)) {
	for _, w := range n.all {
		w.do(do)
	}
}

// Renew makes all evidence of a network void: it has been down.
func (n *Networks) Renew(network int) { n.all[network].do((*swim.Instance).Renew) }

// SetDemand sets how closely the networks watch the peers.
func (n *Networks) SetDemand(d netgossip.Demand) {
	n.demanding.Lock()
	defer n.demanding.Unlock()
	if d == n.demand {
		return
	}
	n.demand = d
	n.each(func(in *swim.Instance) { in.SetDemand(d) })
}

// Ask makes each network ask its set of peers for their statements. A network that still uses another roster for a
// moment asks the wrong peers. That does no harm: nothing is believed because of it.
func (n *Networks) Ask(peers []roster.Set) {
	for k, w := range n.all {
		w.do(func(in *swim.Instance) { in.Ask(peers[k]) })
	}
}

// Fetch asks one of the holders for a list that they have. Each try asks another peer, or on another network.
func (n *Networks) Fetch(holders []string, self, try int, list roster.Ref) {
	// Each node begins with another holder: many nodes may lack the list at once.
	peer := holders[(self+try/len(n.all))%len(holders)]
	for k := range n.all { // on the network whose turn it is or, if that network is missing, on the next one
		if in := n.all[(try+k)%len(n.all)].now(); in != nil {
			in.swim.Fetch(peer, list)
			return
		}
	}
}

// State is the state of the gossip of one network, for people.
type State struct {
	Name   string
	Local  iface.Local // this node's side of it; without an address while the network is away
	Tuning Tuning
	Health int      // memberlist's score of this node's health; 0: well
	KeyIDs []string // fingerprints of the keys in use

	Suspects []string // members that owe this node an answer
}

// States is the state of the gossip of all networks, in their order.
func (n *Networks) States() []State {
	out := make([]State, 0, len(n.all))
	ids := swim.Fingerprints(n.keys)
	for _, w := range n.all {
		in := w.now()
		if in == nil {
			out = append(out, State{Name: w.name, KeyIDs: ids})
			continue
		}
		out = append(out, State{Name: w.name, Local: in.local, Tuning: in.tuning, Health: in.swim.Stats().Health, KeyIDs: ids, Suspects: in.swim.Suspects()})
	}
	return out
}
