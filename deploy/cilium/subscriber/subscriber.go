package subscriber

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"

	"github.com/cilium/cilium/pkg/loadbalancer"
	"github.com/cilium/cilium/pkg/loadbalancer/writer"
	"github.com/cilium/cilium/pkg/metrics"
	nodetypes "github.com/cilium/cilium/pkg/node/types"

	"github.com/fencing-agent/fencing-agent/api/client"
)

// Cell takes the backends of LEFT nodes out of the load balancer. It must come after the cells of cilium-agent: the
// last cell to set the selection hook keeps it.
var Cell = cell.Module(
	"fencing-agent",
	"Takes backends of LEFT nodes out of the load balancer",

	cell.Config(defaultConfig),
	metrics.Metric(newMetrics),
	cell.Invoke(register),
)

// Base is the selection of backends that the cell builds on. If it is not provided, that is the load balancer's own.
type Base struct{ Select selectFunc }

type params struct {
	cell.In

	Log     *slog.Logger
	Jobs    job.Group
	Config  Config
	Writer  *writer.Writer
	Metrics Metrics
	Base    *Base `optional:"true"`
}

// register sets the hook and starts the job, if a socket is configured.
func register(p params) error {
	if p.Config.FencingAgentSocket == "" {
		p.Log.Info("No socket of the fencing agent is configured: Kubernetes' view of the backends applies")
		return nil
	}
	if err := p.Config.validate(); err != nil {
		return err
	}
	base := defaultSelection(p.Writer)
	if p.Base != nil && p.Base.Select != nil {
		base = p.Base.Select
	}
	s := &subscriber{
		log: p.Log, config: p.Config, writer: p.Writer, metrics: p.Metrics,
		selection: newSelection(base, p.Config.FencingAgentAllLeft == allLeftKeep),
	}
	setSelection(p.Writer, s.selection.choose)
	p.Jobs.Add(job.OneShot("follow", s.follow))
	return nil
}

// subscriber is the job. Its fields belong to the goroutine that is called back.
type subscriber struct {
	log       *slog.Logger
	config    Config
	writer    *writer.Writer
	metrics   Metrics
	selection *selection
	own       string
	ruled     mode // the mode that was last logged
}

// follow follows the agent until ctx ends. At the end the set is not changed: the process ends, and the maps with the
// backends outlive it.
func (s *subscriber) follow(ctx context.Context, health cell.Health) error {
	s.own = nodetypes.GetName()
	health.Degraded("Kubernetes' view of the backends applies", errors.New("the fencing agent has not answered yet"))
	s.metrics.ruled(modeNoAnswer, 0)
	s.log.Info("Following the fencing agent; until it answers, Kubernetes' view of the backends applies",
		"socket", s.config.FencingAgentSocket, "hold", s.config.FencingAgentHold)
	return client.Follow(ctx, client.Config{
		Socket: s.config.FencingAgentSocket, Hold: s.config.FencingAgentHold, Log: s.log,
	}, func(u client.Update) { s.update(u, health) })
}

// update takes one update of the agent.
func (s *subscriber) update(u client.Update, health cell.Health) {
	began := time.Now()
	r := judge(u.State, s.own, s.config.FencingAgentMaxLeftPercent)
	changed := difference(*s.selection.out.Load(), r.out)
	refreshed, hooked := 0, true
	if len(changed) > 0 {
		var err error
		if refreshed, hooked, err = s.apply(r.out, changed); err != nil {
			s.log.Error("Backends of LEFT nodes could not be selected again; the next change tries again", "nodes", slices.Sorted(maps.Keys(changed)), "error", err)
			health.Degraded("Backends could not be selected again", err)
			return
		}
		s.metrics.ApplySeconds.Observe(time.Since(began).Seconds())
		s.metrics.Refreshed.Add(float64(refreshed))
	}
	s.metrics.ruled(r.mode, len(r.out))
	s.tell(r, changed, refreshed)
	switch {
	case !hooked:
		health.Degraded("LEFT has no effect", errors.New("another component took the hook of the backend selection: the cell must come after all others"))
	case r.mode != modeAgent:
		health.Degraded("Kubernetes' view of the backends applies", errors.New(r.reason))
	case !u.Connected:
		health.OK("The fencing agent is away; its last report stays in force: " + describe(r.out))
	default:
		health.OK("LEFT is in force: " + describe(r.out))
	}
}

// tell logs one line when something has changed for the load balancer.
func (s *subscriber) tell(r ruling, changed nodeSet, refreshed int) {
	attrs := []any{"nodesOut", slices.Sorted(maps.Keys(r.out)), "changed", slices.Sorted(maps.Keys(changed)), "services", refreshed}
	switch {
	case r.mode != s.ruled && r.mode == modeAgent:
		s.log.Info("The fencing agent's LEFT is in force", attrs...)
	case r.mode != s.ruled:
		s.log.Warn("Kubernetes' view of the backends applies", append(attrs, "cause", r.reason)...)
	case len(changed) > 0:
		s.log.Info("Backends of nodes were taken out or put back", attrs...)
	}
	s.ruled = r.mode
}

// apply sets the nodes whose backends are out, and refreshes every frontend with a backend on a node that changed.
// Frontends that a policy redirects to pods of this node need no refresh: this node is never out. hooked reports
// whether the selection was used.
func (s *subscriber) apply(out, changed nodeSet) (refreshed int, hooked bool, err error) {
	txn := s.writer.WriteTxn()
	before := *s.selection.out.Load()
	s.selection.out.Store(&out)
	used := s.selection.used.Load()

	touched := map[loadbalancer.ServiceName]struct{}{}
	for name, be := range backendsOf(s.writer, txn) {
		if isOut(be, changed) {
			touched[name] = struct{}{}
		}
	}
	selected := false
	for name := range touched {
		if err := s.writer.RefreshFrontends(txn, name); err != nil {
			s.selection.out.Store(&before)
			txn.Abort()
			return 0, true, err
		}
		for range s.writer.Frontends().List(txn, loadbalancer.FrontendByServiceName(name)) {
			selected = true
			break
		}
	}
	txn.Commit()
	return len(touched), !selected || s.selection.used.Load() > used, nil
}

// difference returns the nodes that are in only one of the sets.
func difference(a, b nodeSet) nodeSet {
	d := nodeSet{}
	for name := range a {
		if !b.has(name) {
			d[name] = struct{}{}
		}
	}
	for name := range b {
		if !a.has(name) {
			d[name] = struct{}{}
		}
	}
	return d
}

// describe names a few nodes.
func describe(out nodeSet) string {
	names := slices.Sorted(maps.Keys(out))
	switch {
	case len(names) == 0:
		return "no node is out"
	case len(names) > 5:
		names = append(names[:5], "...")
	}
	text := "out are"
	for _, n := range names {
		text += " " + n
	}
	return text
}
