package agent

import (
	"context"
	"fmt"
	"maps"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/memberbook"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

// nodeDisarms returns the disarm signals of this node's Node: why, by source. teller names the source of the Node.
func nodeDisarms(g ownnode.Signals, teller string) map[string]string {
	why := map[string]string{"removal": g.Removal, "unknown node": ""}
	if g.Unknown {
		why["unknown node"] = teller + " has not shown this node's Node yet"
	}
	return why
}

// annotated returns the annotations' answer about a maintenance.
func annotated(g ownnode.Signals) (opinion, string) {
	switch {
	case g.Maintenance != "":
		return under, "annotation " + g.Maintenance
	case g.None != "":
		return none, "annotation " + g.None
	default:
		return silent, ""
	}
}

// tell passes on all disarm signals that depend on the Node together: one of them may replace another.
func (n *nodeSignals) tell(g ownnode.Signals, to func(map[string]string)) {
	o, why := annotated(g)
	n.a.guard.maintenances.take(config.DisableNode, o, why, func(signals map[string]string) {
		maps.Copy(signals, nodeDisarms(g, n.teller))
		to(signals)
	})
}

// kubePart is the credentials for the API server among the parts of the agent.
const kubePart = "kubernetes.kubeconfig"

// openKubernetes makes the client of the API server, if the configuration names one. A kubeconfig that cannot be used
// is a missing part: until it can be used, the API server counts as unreachable in ties.
func (a *Agent) openKubernetes() (err error) {
	if a.kube.client = a.opts.Kubernetes; a.kube.client != nil || !a.cfg.UsesKubernetes() {
		return nil
	}
	metrics, path := client.NewMetrics(a.opts.Registry), a.cfg.Kubernetes.Kubeconfig
	if path == "" {
		a.kube.client, err = client.New("", metrics)
		return err
	}
	if a.kube.client, err = client.Late(path, metrics); err != nil {
		return err
	}
	a.published.parts.Note(kubePart, a.kubeReady())
	return nil
}

func (a *Agent) kubeReady() error {
	err := a.kube.client.Ready()
	if err != nil {
		err = fmt.Errorf("%w; the API server counts as unreachable until the file can be used", err)
	}
	return err
}

// startKubernetes tries to read the kubeconfig until it can be used.
func (a *Agent) startKubernetes(background spawn) {
	if a.published.parts.Lacks(kubePart) {
		background(func(ctx context.Context) { a.published.parts.Keep(ctx, kubePart, a.kubeReady) })
	}
}

// nodeSignals holds what is known of this node's Node, and its signals for the watchdog. A nil *nodeSignals does
// nothing.
type nodeSignals struct {
	a      *Agent
	teller string
	memory *nodeMemory

	// Owned by startOwnNode, and then by the goroutine that calls tell.
	last     ownnode.Signals
	known    ownnode.State
	versions memberbook.Versions // of the states that the controller shows
	behind   bool                // the controller shows an older state
}

// startOwnNode follows this node's Node. The watchdog is not armed until the Node has been seen once, now or before a
// restart: the node may be under maintenance.
func (a *Agent) startOwnNode(background spawn) error {
	told := a.cfg.Members.Source == config.SourceController // then the controller shows it
	if a.kube.client == nil && !told || !a.cfg.Kubernetes.Follows() {
		return nil
	}
	n := &nodeSignals{a: a, teller: "the API server"}
	if told {
		n.teller = "the controller"
	}
	n.memory = newNodeMemory(a.cfg.NodeCacheFile(), a.cfg.NodeName, a.log, ownnode.Rules{
		Disable: a.cfg.Kubernetes.DisableAnnotations, Off: len(a.cfg.Watchdog.DisableOrder()) > 0,
	})
	n.memory.told = a.published.unsaved.teller("node")
	known := n.memory.load()
	n.last, n.known = n.memory.rules.Judge(known), known
	n.versions.Begin(known.Version)
	// Passed on before the loop runs, so that the node is not armed even for a moment, as with the disable file.
	n.tell(n.last, a.disarmNow)
	n.log()
	background(n.memory.run)
	if a.kube.node = n; told {
		return nil
	}
	core, err := a.kube.client.For(client.Core)
	if err != nil {
		return err
	}
	w, err := ownnode.New(ownnode.Config{Client: core, Node: a.cfg.NodeName, Logger: a.log, Remembered: known, OnState: n.learn, OnReach: func(is bool) { a.kube.unheard.Store(!is) }})
	if err != nil {
		return err
	}
	background(w.Run)
	return nil
}

// learn handles a new state of the Node, from the goroutine that follows the Node.
func (n *nodeSignals) learn(s ownnode.State) {
	if n == nil {
		return
	}
	if older := !n.versions.Look(s.Version, n.a.clock()); older != n.behind {
		if n.behind = older; older {
			n.a.log.Warn(n.teller+" shows an older state of this node's Node than the one that this agent knows and keeps using: a replica is behind, or the cluster was set back",
				"known", n.known.Version, "shown", s.Version, "believed_after", memberbook.SetBack)
		}
	}
	if n.behind {
		return
	}
	same := n.known.Equal(s)
	n.known = s
	if g := n.memory.rules.Judge(s); g != n.last {
		n.last = g
		n.log()
		n.tell(g, n.a.disarmSoon)
	}
	n.a.kube.marks.seen(s)
	n.a.kube.deaths.seen(s)
	n.a.kube.sightings.seen(s)
	if !same { // the version of the last change is enough to recognize older states
		n.memory.keep(s)
	}
}

// uid is the UID of the Node that is, or was, known. Only the goroutine that calls tell may call it.
func (n *nodeSignals) uid() string {
	if n == nil {
		return ""
	}
	return n.known.UID
}

func (n *nodeSignals) log() {
	log, g := n.a.log, n.last
	switch {
	case g.Unknown:
		log.Warn(n.teller + " has not shown this node's Node yet, so the watchdog is not armed")
	case g.Maintenance != "" || g.Removal != "":
		log.Info("this node's Node asks to disarm the watchdog", "maintenance", g.Maintenance, "removal", g.Removal)
	default:
		log.Info("nothing on this node's Node speaks against the armed watchdog")
	}
}
