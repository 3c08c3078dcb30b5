package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
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
	memory := &nodeMemory{path: a.cfg.NodeCacheFile(), node: a.cfg.NodeName, log: a.log, rules: ownnode.Rules{Disable: a.cfg.Kubernetes.DisableAnnotations}}
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
			memory.save(s)
		},
	})
	if err != nil {
		return err
	}
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

// nodeMemory is what the agent remembers of its Node over a restart. Losing it costs nothing
// but the right to arm while the API server is away.
type nodeMemory struct {
	path, node string
	log        *slog.Logger
	rules      ownnode.Rules
	saved      string // content of the file
	failed     bool
}

type nodeFile struct {
	Version int           `json:"version"`
	Node    string        `json:"node"`
	State   ownnode.State `json:"state"`
}

const nodeFileVersion = 1

// load returns what is remembered, or the zero State.
func (m *nodeMemory) load() ownnode.State {
	text, err := statefile.Read(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return ownnode.State{}
	}
	var f nodeFile
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err == nil && (f.Version != nodeFileVersion || f.Node != m.node) {
		err = fmt.Errorf("it is of node %q, format %d", f.Node, f.Version)
	}
	if err != nil {
		m.log.Warn("own Node: what was known of it before the restart cannot be used", "file", m.path, "error", err)
		return ownnode.State{}
	}
	m.saved = string(text)
	return f.State
}

// save writes what signals depend on, if that has changed.
func (m *nodeMemory) save(s ownnode.State) {
	text, err := json.Marshal(nodeFile{Version: nodeFileVersion, Node: m.node, State: m.rules.Memory(s)})
	if err != nil || string(text) == m.saved {
		return
	}
	if err := statefile.Write(m.path, text); err != nil {
		if !m.failed {
			m.log.Warn("own Node: what is known of it cannot be remembered over a restart", "file", filepath.Clean(m.path), "error", err)
		}
		m.failed = true
		return
	}
	m.saved, m.failed = string(text), false
}
