package agent

import (
	"log/slog"
	"maps"

	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

// nodeDisarms are the disarm signals of this node's Node: why, by source.
func nodeDisarms(g ownnode.Signals) map[string]string {
	why := map[string]string{"annotation": "", "removal": g.Removal, "unknown node": ""}
	if g.Maintenance != "" {
		why["annotation"] = "annotation " + g.Maintenance
	}
	if g.Unknown {
		why["unknown node"] = "the API server has not shown this node's Node yet"
	}
	return why
}

// openKubernetes makes the client of the API server, if the configuration names one.
func (a *Agent) openKubernetes() error {
	if a.kube.client = a.opts.Kubernetes; a.kube.client != nil || !a.cfg.UsesKubernetes() {
		return nil
	}
	var err error
	a.kube.client, err = client.New(a.cfg.Kubernetes.Kubeconfig, client.NewMetrics(a.opts.Registry))
	return err
}

// startOwnNode follows this node's Node. Until the API server has shown it once, now or before a
// restart, the watchdog is not armed: the node may be under maintenance.
func (a *Agent) startOwnNode(background spawn) error {
	if a.kube.client == nil || !a.cfg.Kubernetes.WatchNode {
		return nil
	}
	core, err := a.kube.client.For(client.Core)
	if err != nil {
		return err
	}
	memory := newNodeMemory(a.cfg.NodeCacheFile(), a.cfg.NodeName, a.log, ownnode.Rules{Disable: a.cfg.Kubernetes.DisableAnnotations})
	memory.told = a.unsaved.teller("node")
	known := memory.load()
	first := memory.rules.Judge(known)
	// Known before the loop runs: not armed for a moment, as with the disable file.
	for source, why := range nodeDisarms(first) {
		a.core.SetDisarm(source, why)
	}
	logSignals(a.log, first)
	last := first
	w, err := ownnode.New(ownnode.Config{
		Client: core, Node: a.cfg.NodeName, Logger: a.log, Remembered: known,
		OnState: func(s ownnode.State) {
			if g := memory.rules.Judge(s); g != last {
				last = g
				logSignals(a.log, g)
				a.box.put(func(b *batch) { maps.Copy(b.disarm, nodeDisarms(g)) })
			}
			a.kube.marks.seen(s)
			a.kube.deaths.seen(s)
			memory.keep(s)
		},
	})
	if err != nil {
		return err
	}
	background(memory.run)
	background(w.Run)
	return nil
}

func logSignals(log *slog.Logger, g ownnode.Signals) {
	switch {
	case g.Unknown:
		log.Warn("own Node: the API server has not shown it yet, so the watchdog is not armed")
	case g.Maintenance != "" || g.Removal != "":
		log.Info("own Node: the watchdog is to be disarmed", "maintenance", g.Maintenance, "removal", g.Removal)
	default:
		log.Info("own Node: nothing speaks against the armed watchdog")
	}
}
