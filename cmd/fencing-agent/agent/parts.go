package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/apicheck"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/iface"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

const (
	apiSeldom       = time.Minute     // while no tie is near
	apiInterval     = 2 * time.Second // while one is
	apiTimeout      = time.Second
	apiMaxAge       = 2*apiInterval + apiTimeout // one lost answer does not make the API unreachable
	disableInterval = time.Second
	keyInterval     = 10 * time.Second
	lunRetry        = 5 * time.Second
	stopLimit       = 5 * time.Second // for each part that has to be waited for
)

// network is one SystemNetwork at run time.
type network struct {
	name    string
	present atomic.Pointer[gossiping]
}

// now is the network as it is at the moment.
func (n *network) now() *gossiping { return n.present.Load() }

// gossiping is one life of a network's gossip.
type gossiping struct {
	local  iface.Local
	swim   *swim.Instance
	tuning tuning
	// unpinned says that the sockets are not bound to the device although they should be.
	unpinned bool
}

type spawn func(func(context.Context))

// startServing opens the gRPC socket and the HTTP listener: first, so that a second
// agent on the same host stops before it touches anything that is shared.
func (a *Agent) startServing(background spawn) (stop func(), err error) {
	a.hub = publish.NewHub(publish.HubConfig{Source: a.cfg.NodeName, Metrics: publish.NewMetrics(a.reg), Expired: a.expired})
	a.server, err = publish.New(publish.Config{Hub: a.hub, Status: a.status, Log: a.log})
	if err != nil {
		return nil, err
	}
	socket := a.opts.Socket
	if socket == nil {
		if socket, err = publish.Listen(a.cfg.API.Socket, fs.FileMode(a.cfg.API.SocketMode), a.cfg.API.SocketGroup); err != nil {
			return nil, err
		}
	}
	stopHTTP, err := a.startHTTP(background)
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	background(func(context.Context) {
		if err := a.server.Serve(socket); err != nil {
			a.log.Error("gRPC socket", "error", err)
		}
	})
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		if err := a.server.Stop(ctx); err != nil {
			a.log.Warn("gRPC clients had to be cut off", "error", err)
		}
		stopHTTP()
	}, nil
}

// patiently runs f, and waits for it after the end of ctx, but not for ever: it may hang
// in the kernel.
func patiently(ctx context.Context, f func(context.Context)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
	}
}

// startFeeder starts the watchdog's feeder, unarmed.
func (a *Agent) startFeeder() (stop func(cause error, abandon bool) error, err error) {
	dev, realtime, err := a.openWatchdog()
	if err != nil {
		return nil, err
	}
	a.feeder, err = wdt.NewFeeder(wdt.Config{
		Device: dev, Timeout: a.cfg.Watchdog.Timeout, FeedInterval: a.cfg.Watchdog.FeedInterval,
		Clock: a.clock, Logger: a.log, Metrics: wdt.NewMetrics(a.reg), Realtime: realtime,
		OnState: func(s wdt.State) { a.box.put(func(b *batch) { b.feeder = &s }) },
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var ended error
	wg.Go(func() { ended = a.feeder.Run(ctx) })
	return func(cause error, abandon bool) error {
		defer wg.Wait()
		defer cancel()
		if abandon || cause != nil {
			cancel()
			wg.Wait()
			return ended // an error must not disarm: the device stays armed and the peers may count on it
		}
		return a.disarmForStop()
	}, nil
}

// disarmForStop ends the feeder by magic close. A watchdog that may not be disarmed, or
// must not because the permission to feed had ended, is left to fire.
func (a *Agent) disarmForStop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	err := a.feeder.Stop(ctx)
	if errors.Is(err, wdt.ErrStarved) {
		return fmt.Errorf("planned stop of a node without permission to feed: %w", err)
	}
	return err
}

// startGossip finds this node's address on every SystemNetwork and starts an instance on each.
func (a *Agent) startGossip(background spawn) (stop func(), err error) {
	if a.cfg.Gossip.KeyFile != "" {
		if a.keys, err = swim.LoadKeyring(a.cfg.Gossip.KeyFile, a.log); err != nil {
			return nil, err
		}
		background(func(ctx context.Context) {
			swim.FollowKeyring(ctx, a.cfg.Gossip.KeyFile, a.keys, keyInterval, a.log)
		})
	}
	background(a.alarms.run)
	a.swimMetrics = swim.NewMetrics(a.reg)
	stop = func() {
		var wg sync.WaitGroup
		a.rebuilding.Lock() // for good: nothing is started any more
		for _, n := range a.nets {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
				defer cancel()
				if err := n.now().swim.Stop(ctx, false); err != nil {
					a.log.Warn("gossip did not stop in time", "network", n.name, "error", err)
				}
			})
		}
		wg.Wait()
	}
	for i, sn := range a.cfg.SystemNetworks {
		g, err := a.newGossip(i, sn, a.roster)
		if err != nil {
			stop()
			return nil, err
		}
		n := &network{name: sn.Name}
		n.present.Store(g)
		a.nets = append(a.nets, n)
	}
	a.warnUnpinned()
	for _, n := range a.nets {
		if err := n.now().swim.Start(); err != nil {
			stop()
			return nil, fmt.Errorf("network %s: %w", n.name, err)
		}
		a.showTuning(n.name, n.now().tuning)
	}
	a.watchNetworks(background)
	background(a.rebuildGossip)
	return stop, nil
}

// newGossip opens the gossip of a network by a roster.
func (a *Agent) newGossip(i int, sn config.SystemNetwork, r *roster.Roster) (*gossiping, error) {
	found, err := a.opts.Links.Find(iface.Query{Network: sn.Name, Interface: sn.Interface, CIDR: sn.CIDR, Address: sn.Address})
	if err != nil {
		return nil, err
	}
	switch want := r.Members[r.Self].Addresses[sn.Name]; {
	case want == found.Address.String():
	case a.rosters.kube != nil:
		// It moved. Its Node says so from now on, and the others hear it there.
		a.log.Warn("this node's address is not that of the list of members; it is heard again when the list has changed",
			"network", sn.Name, "address", found.Address, "listed", want)
	case want == "":
		return nil, notListed(sn.Name, a.cfg.NodeName)
	default:
		return nil, fmt.Errorf("network %s: this node's address is %v (%s), but the list of members has %s for %q; correct the list, nodeName or the network, or two nodes will run under one name",
			sn.Name, found.Address, found.Interface, want, a.cfg.NodeName)
	}
	t := tuning{a.cfg.ParamsFor(r.Size()), r.Size()}
	in, unpinned, err := openInstance(sn, swim.Config{
		Network: i, Name: sn.Name, Label: a.cfg.GossipLabel(sn.Name), Roster: r,
		BindAddr: found.Address, Port: sn.Port, Params: t.params, Keyring: a.keys, AnySource: a.cfg.Gossip.Sources == config.SourcesAny, Transport: a.opts.Listen, Device: a.pinTo(sn, found),
		Clock: a.clock, Statement: a.statement, Relay: a.relay, Sees: a.sees, HandsOver: a.rosters.handing.handsOver, Logger: a.log, Metrics: a.swimMetrics,
		Handed: func(r *roster.Roster) { a.box.put(func(b *batch) { b.handed = append(b.handed, r) }) },
		Sink: sink{box: a.box, roster: r, conflict: func(_ int, name, address string) {
			a.alarms.report(nameConflict{sn.Name, name, address, otherAddress})
		}, others: a.others, proven: a.proven},
	})
	if err != nil {
		return nil, err
	}
	return &gossiping{local: found, swim: in, tuning: t, unpinned: unpinned}, nil
}

// others calls the instances of all networks but one. The networks are complete before the
// first instance starts.
func (a *Agent) others(network int, do func(*swim.Instance)) {
	for i, n := range a.nets {
		if i != network {
			do(n.now().swim)
		}
	}
}

// proven tells the instances of all networks but one that a peer answered on that. It is called for every
// answer and does not allocate.
func (a *Agent) proven(network int, peer string, at boottime.Instant, told bool) {
	for i, n := range a.nets {
		if i != network {
			n.now().swim.Proven(peer, at, told)
		}
	}
}

// statement is what this node says to its peers, or nil while the loop does not run: an
// answer with an old statement would be fresh evidence of a view and a token that nobody
// stands behind any more (lease L1, L6). Without a statement no probe is answered.
func (a *Agent) statement() *netgossip.Statement {
	if at := boottime.Instant(a.alive.Load()); a.clock().Sub(at) > 3*maxIdle {
		return nil
	}
	return a.said.Load().statement()
}

// watchNetworks follows carrier and addresses of the networks.
func (a *Agent) watchNetworks(background spawn) {
	c := iface.WatchConfig{Clock: a.clock, Logger: a.log, Changed: func(change iface.Change) {
		if change.Up {
			a.nets[change.Network].now().swim.Rebind(change.Local.Interface, change.Local.Index)
			a.marks.moved(a.nets[change.Network].name, change.Local.Address)
		}
		a.box.put(func(b *batch) {
			b.links[change.Network] = linkReport{changed: true, up: change.Up}
			b.linkDirty = true
		})
	}}
	for _, n := range a.nets {
		c.Networks = append(c.Networks, n.now().local)
	}
	background(func(ctx context.Context) {
		if err := a.opts.Links.Watch(ctx, c); ctx.Err() == nil {
			a.log.Error("watching network interfaces ended", "error", err)
		}
	})
}

// startSignals starts what may ask to disarm, and the probe of the Kubernetes API.
func (a *Agent) startSignals(background spawn) error {
	// Asked once before the loop runs: a node under maintenance is never armed, not even
	// for a moment.
	present := a.findDisableFile(false)
	a.core.SetDisarm(disarmFile, present)
	a.disableFile = present
	background(func(ctx context.Context) { a.watchDisableFile(ctx, present) })
	if err := a.startOwnNode(background); err != nil {
		return err
	}
	if !a.prefersAPI() {
		return nil
	}
	report := func(reachable bool, at boottime.Instant) {
		a.box.put(func(b *batch) { b.api = &apiReport{reachable, at} })
	}
	if probe := a.opts.ProbeAPI; probe != nil {
		background(func(ctx context.Context) { probe(ctx, a.apiPace, report) })
		return nil
	}
	check, err := apicheck.New(apicheck.Config{
		Kubeconfig: a.cfg.Kubernetes.Kubeconfig, Pace: a.apiPace, Timeout: apiTimeout, Logger: a.log, Clock: a.clock,
		OnResult: report,
	})
	if err != nil {
		return fmt.Errorf("kubernetes tie-breaker: %w", err)
	}
	background(check.Run)
	return nil
}

// watchDisableFile polls the disable file, which began as present. If it cannot be
// told whether the file is there, the last answer stands.
func (a *Agent) watchDisableFile(ctx context.Context, present bool) {
	t := time.NewTicker(disableInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if on := a.findDisableFile(present); on != present {
			present = on
			a.box.put(func(b *batch) { b.disarm[disarmFile] = on })
		}
	}
}

// disarmFile is the disarm signal of the disable file.
const disarmFile = "file"

// findDisableFile reports whether the disable file is there.
func (a *Agent) findDisableFile(last bool) bool {
	path := a.cfg.Watchdog.DisableFile
	_, err := os.Stat(path)
	on := err == nil
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		a.log.Warn("disable file", "path", path, "error", err)
		return last
	case on != last:
		a.log.Info("disable file", "path", path, "present", on)
	}
	return on
}

// publish hands the edges to the subscribers. A subscriber takes the first list for the
// whole truth, and what is missing in it for gone: an agent that has just been started
// serves nothing before it has seen everybody, or given everybody the time to be seen.
func (a *Agent) publish(now boottime.Instant, fx *watchdog.Effects) {
	if !a.opened {
		if fx.Available.Len() < a.core.Size() && now.Sub(a.began) < a.cfg.EvidenceMaxAge() {
			return
		}
		a.opened = true
		a.hub.Update(a.available(fx), nil)
		return
	}
	if fx.Joined.IsEmpty() && fx.Left.IsEmpty() {
		if a.hub.Withdrawn() {
			a.hub.Update(a.available(fx), nil)
		}
		return
	}
	wall := time.Now()
	edges := make([]publish.Edge, 0, fx.Joined.Len()+fx.Left.Len())
	var why []string
	for p := range fx.Left.All() {
		reason := a.core.LeftReason(p).String()
		why = append(why, a.roster.Name(p)+": "+reason)
		a.metrics.left.WithLabelValues(reason).Inc()
		a.prevLeft[p] = wall
		edges = append(edges, publish.Edge{Type: fencingv1.EventType_LEFT, Node: a.node(p), Time: wall})
	}
	for p := range fx.Joined.All() {
		edges = append(edges, publish.Edge{Type: fencingv1.EventType_JOIN, Node: a.node(p), Time: wall})
	}
	a.hub.Update(a.available(fx), edges)
	a.log.Info("membership", "left", a.roster.Names(fx.Left), "why", why, "joined", a.roster.Names(fx.Joined))
}

func (a *Agent) available(fx *watchdog.Effects) []publish.Node {
	return a.nodes(fx.Available)
}

func (a *Agent) nodes(set roster.Set) []publish.Node {
	nodes := make([]publish.Node, 0, set.Len())
	for p := range set.All() {
		nodes = append(nodes, a.node(p))
	}
	return nodes
}

func (a *Agent) node(p int) publish.Node {
	m := &a.roster.Members[p]
	return publish.Node{Name: m.Name, Addresses: m.Addresses, PrevDisconnect: a.prevLeft[p]}
}
