package fencing

import (
	"cmp"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// Finding is that a boot has ended, as the devices of its node say, or its crash kernel.
type Finding struct {
	Node, Boot string
	Kind       string // nodefence.ByPower or ByKdump
	Reference  string // the NodeFence
	At         time.Time
	// Contradicted: the kubelet of that boot was heard after that.
	Contradicted bool
}

// findings are those that are about the boot that a Node shows at present: what was found of a boot before is known by the new one.
//
// Invariant: a death is found only when the Lease of the node has run out. A board that lies about a machine whose kubelet reaches the API
// server would else be believed by agents that cannot reach it, and act sooner than the recovery does.
func findings(fences []NodeFence, nodes map[string]nodefence.Node, ranOut func(node string) bool) (out []Finding) {
	for i := range fences {
		f := &fences[i]
		p := f.Status.Proof
		if p == nil || p.Kind != nodefence.ByPower && p.Kind != nodefence.ByKdump || p.Boot == "" || p.Boot != f.Status.Boot ||
			f.Name != NameOf(f.Spec.NodeName) || nodes[f.Spec.NodeName].Boot != p.Boot || !p.Contradicted && !ranOut(f.Spec.NodeName) {
			continue
		}
		out = append(out, Finding{f.Spec.NodeName, p.Boot, p.Kind, f.Name, p.At.UTC(), p.Contradicted})
	}
	slices.SortFunc(out, func(a, b Finding) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// ranOut reports whether the Lease of a node has run out, as the latest look at all Leases says. None says nothing.
func (r *Runner) ranOut(node string) bool {
	end, known := r.listed[node]
	return known && r.Now().After(end)
}
