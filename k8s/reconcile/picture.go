package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// Picture shows people what this replica knows. Nothing is decided by it.
type Picture struct {
	At       time.Time
	Self     string
	DryRun   bool
	Groups   map[string][]string // Nodes by group, sorted; "" has the Nodes without a group
	Nodes    []NodePicture       // the Nodes that this replica works on, or that are called dead, sorted
	Storm    storm.Settings
	Evicting map[string]time.Time // Nodes whose evictions are awaited, with the start of the wait
	Replicas []Replica
}

// NodePicture is one Node that this replica works on.
type NodePicture struct {
	Name, Group string
	Phase       recovery.Phase
	Since       time.Time
	Text        string         // what it does there, or for what it waits
	Wait        time.Duration  // how long it is left to other replicas; 0: it is not
	Trouble     string         // the error of the last request that failed
	Left        int            // pods that are still to be deleted
	Tainted     bool           // out-of-service, by this program
	Told        []deaths.Death // the reports that call it dead
}

// Does describes what this replica does there.
func (n *NodePicture) Does() string {
	text := n.Text
	if n.Wait > 0 {
		text = fmt.Sprintf("is left to other replicas for %v", n.Wait.Round(time.Second))
	}
	if n.Trouble != "" {
		text += "; last request failed: " + n.Trouble
	}
	return text
}

// Picture returns what this replica knows now.
func (r *Reconciler) Picture() *Picture {
	replicas := r.options.Replicas()
	slices.SortFunc(replicas, func(a, b Replica) int { return cmp.Compare(a.Name, b.Name) })
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.options.Now()
	p := &Picture{
		At: now, Self: r.options.Self, DryRun: r.options.Recovery.DryRun, Groups: map[string][]string{}, Storm: r.options.Storm,
		Evicting: r.pace.Evicting(), Replicas: replicas,
	}
	for _, node := range slices.Sorted(maps.Keys(r.index.group)) {
		p.Groups[r.index.group[node]] = append(p.Groups[r.index.group[node]], node)
	}
	names := slices.Collect(maps.Keys(r.machines))
	for name := range r.index.about {
		if r.machines[name] == nil && r.index.has(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		n := NodePicture{Name: name, Group: r.index.group[name], Phase: recovery.Watching, Text: "was not looked at yet", Since: now}
		if w := r.machines[name]; w != nil {
			s := w.machine.State()
			n.Phase, n.Since, n.Text, n.Trouble, n.Left, n.Tainted, n.Wait = s.Phase, w.since, s.Text, s.Trouble, s.Left, s.Tainted, max(0, w.begins.Sub(now))
		}
		for _, by := range r.index.tellers(name) {
			for _, d := range slices.Concat(r.index.told[by], r.index.reported[by]) {
				if d.Node == name {
					d.By = by
					n.Told = append(n.Told, d)
				}
			}
		}
		p.Nodes = append(p.Nodes, n)
	}
	return p
}
