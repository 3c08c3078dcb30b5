package agent

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/parts"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/picture"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// published is what subscribers and readers of the status get.
type published struct {
	parts    *parts.List // what is missing of this agent
	unsaved  *unsaved
	hub      *publish.Hub
	server   *publish.Server
	opened   bool                          // the hub serves
	left     []time.Time                   // when members were published as gone, by roster index
	flapping roster.Set                    // whose JOIN is delayed, as logged last
	facts    atomic.Pointer[picture.Facts] // as the loop last saw them; any goroutine may read them
	at       boottime.Instant              // of the facts; 0: they have to be taken again

	history chronicle // what survives a reset
}

// startServing opens the gRPC socket and the HTTP listener. It runs first, so that a second agent on the same host
// stops before it touches anything that is shared.
func (a *Agent) startServing(background spawn) (stop func(), err error) {
	a.published.hub = publish.NewHub(publish.HubConfig{Source: a.cfg.NodeName, Metrics: publish.NewMetrics(a.opts.Registry), Expired: a.guard.expired})
	a.published.server, err = publish.New(publish.Config{Hub: a.published.hub, Status: a.status, Log: a.log, Tell: a.tell, Order: a.order, Maintain: a.maintain, MayTell: a.mayTell()})
	if err != nil {
		return nil, err
	}
	paths := append([]string{a.cfg.API.Socket}, a.cfg.API.MoreSockets...)
	if a.opts.Socket != nil {
		paths = paths[1:]
		background(a.serveSocket(a.opts.Socket))
	}
	for _, path := range paths {
		l, err := a.listen(path)
		if refused := (*publish.RefusedError)(nil); errors.As(err, &refused) {
			return nil, errors.Join(err, a.published.server.Stop(context.Background()))
		}
		a.published.parts.Note(socketPart(path), err)
		background(func(ctx context.Context) {
			if l == nil {
				a.published.parts.Keep(ctx, socketPart(path), func() (err error) { l, err = a.listen(path); return err })
			}
			if l != nil {
				a.serveSocket(l)(ctx)
			}
		})
	}
	stopHTTP := a.startHTTP(background)
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		if err := a.published.server.Stop(ctx); err != nil {
			a.log.Warn("gRPC clients had to be cut off", "error", err)
		}
		stopHTTP()
	}, nil
}

// socketPart names a socket of the API among the parts of the agent.
func socketPart(path string) string { return "socket " + path }

// socketMode lets root and the group of api.socketGroup connect.
const socketMode fs.FileMode = 0o660

// listen creates a socket of the API, if that is possible.
func (a *Agent) listen(path string) (net.Listener, error) {
	before, _ := os.Lstat(path)
	l, err := publish.Listen(path, socketMode, a.cfg.API.SocketGroup)
	if err == nil && before != nil && before.IsDir() {
		a.log.Warn("removed an empty folder at the path of the API socket: a pod that has mounted that folder must be created again", "path", path)
	}
	return l, err
}

func (a *Agent) serveSocket(l net.Listener) func(context.Context) {
	return func(context.Context) {
		if err := a.published.server.Serve(l); err != nil {
			a.log.Error("cannot serve the gRPC socket", "error", err)
		}
	}
}

// show publishes the present moment to all readers.
func (a *Agent) show(now boottime.Instant, changed bool) {
	f := a.facts(now)
	a.published.at = now
	a.published.facts.Store(f)
	a.metrics.Show(f)
	a.sample(now, f)
	if changed {
		a.published.server.SetReady(f.Ready())
	}
	a.published.server.StatusChanged()
}

// publish passes the edges to the subscribers. A subscriber treats nodes that are missing in the first list as gone. So
// an agent that has just started publishes nothing before it has seen all members, or given them the time to be seen.
func (a *Agent) publish(now boottime.Instant, fx *watchdog.Effects) {
	if !a.published.opened {
		if fx.Available.Len() < a.core.Rosters().Size() && now.Sub(a.life.began) < a.cfg.EvidenceMaxAge() {
			return
		}
		a.published.opened = true
		a.published.hub.Update(a.available(fx), nil)
		return
	}
	a.noteFlapping(fx.Flapping)
	if fx.Joined.IsEmpty() && fx.Left.IsEmpty() {
		if a.published.hub.Withdrawn() {
			a.published.hub.Update(a.available(fx), nil)
		}
		return
	}
	wall := time.Now()
	edges := make([]publish.Edge, 0, fx.Joined.Len()+fx.Left.Len())
	var why []string
	for p := range fx.Left.All() {
		reason := a.core.LeftReason(p)
		why = append(why, a.roster.Name(p)+": "+reason.String())
		a.metrics.Left(reason)
		a.published.left[p] = wall
		edges = append(edges, publish.Edge{Type: fencingv1.EventType_LEFT, Node: a.node(p), Time: wall, Source: a.source(p, reason == watchdog.LeftUnreachable, false)})
	}
	for p := range fx.Joined.All() {
		edges = append(edges, publish.Edge{Type: fencingv1.EventType_JOIN, Node: a.node(p), Time: wall, Source: a.source(p, true, true)})
	}
	a.published.hub.Update(a.available(fx), edges)
	a.log.Info("membership changed", "left", a.roster.Names(fx.Left), "why", why, "joined", a.roster.Names(fx.Joined))
}

// noteFlapping logs whose JOIN is delayed from now on. The JOIN itself shows the end of the delay.
func (a *Agent) noteFlapping(held roster.Set) {
	for p := range held.Minus(a.published.flapping).All() {
		a.log.Warn("a node comes and goes: it is back, but its JOIN is held back", "node", a.roster.Name(p), "for_at_most", a.core.FlappingFor(p).Round(time.Second))
	}
	a.published.flapping = held
}

// source names what noticed the change: this node, and the network on which the member was last lost or found, if that
// was the reason. With the rule any, that is the last network that was lost; with all, the first: the one that changed
// the published set.
func (a *Agent) source(p int, byNetwork, joined bool) string {
	name, latest := a.cfg.NodeName, boottime.Instant(0)
	if !byNetwork || p == a.roster.Self {
		return name
	}
	for i := range a.cfg.SystemNetworks {
		since, reachable := a.links.edges.Link(i, p)
		if reachable == joined && since > latest {
			name, latest = a.cfg.NodeName+"/"+a.cfg.SystemNetworks[i].Name, since
		}
	}
	return name
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
	return publish.Node{Name: m.Name, Addresses: m.Addresses, PrevDisconnect: a.published.left[p]}
}
