package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"time"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/gossip"
	"github.com/fencing-agent/fencing-agent/k8s/apicheck"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

const (
	apiSeldom   = time.Minute     // while no tie is near
	apiInterval = 2 * time.Second // while one is
	apiTimeout  = time.Second
	apiMaxAge   = 2*apiInterval + apiTimeout // one lost answer does not make the API unreachable
	lunRetry    = 5 * time.Second
	stopLimit   = 5 * time.Second // for each part that has to be waited for
)

type spawn func(func(context.Context))

// startServing opens the gRPC socket and the HTTP listener: first, so that a second
// agent on the same host stops before it touches anything that is shared.
func (a *Agent) startServing(background spawn) (stop func(), err error) {
	a.hub = publish.NewHub(publish.HubConfig{Source: a.cfg.NodeName, Metrics: publish.NewMetrics(a.reg), Expired: a.guard.expired})
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

// newGossip prepares the gossip on all networks.
func (a *Agent) newGossip() *gossip.Networks {
	return gossip.New(gossip.Config{
		Config: a.cfg, Roster: a.roster, Listen: a.opts.Listen, Links: a.opts.Links, Clock: a.clock, Logger: a.log, Registry: a.reg,
		AddressesFollow: a.rosters.kube != nil,
		Reports:         func(r *roster.Roster) gossip.Reports { return sink{box: a.box, roster: r} },
		Stalled:         a.stalled,
		HandsOver:       a.rosters.handing.handsOver,
		Handed:          func(r *roster.Roster) { a.box.put(func(b *batch) { b.handed = append(b.handed, r) }) },
		LinkChanged: func(network int, up bool) {
			a.box.put(func(b *batch) {
				b.links[network] = linkReport{changed: true, up: up}
				b.linkDirty = true
			})
		},
		AddressChanged: func(network string, to netip.Addr) { a.marks.moved(network, to) },
	})
}

// stalled reports whether the loop does not run. What it said last is nobody's word any more.
func (a *Agent) stalled() bool {
	at := boottime.Instant(a.alive.Load())
	return a.clock().Sub(at) > 3*maxIdle
}

// startSignals starts what may ask to disarm, and the probe of the Kubernetes API.
func (a *Agent) startSignals(background spawn) error {
	a.startDisableFile(background)
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
