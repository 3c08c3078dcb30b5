package fencing

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// deathOf is the death that a NodeFence proves, as the devices of its node say, or its crash kernel; nil: it proves none.
func deathOf(f *NodeFence) *deaths.Death {
	p := f.Status.Proof
	if p == nil || p.Kind != nodefence.ByPower && p.Kind != nodefence.ByKdump || p.Boot == "" || p.Boot != f.Status.Boot || f.Name != NameOf(f.Spec.NodeName) {
		return nil
	}
	return &deaths.Death{Node: f.Spec.NodeName, Boot: p.Boot, Proof: p.Kind, At: p.At.UTC(), Reference: f.Name, Contradicted: p.Contradicted}
}

// Proof reads whether a NodeFence proves that this boot of the node has ended.
func (r *Runner) Proof(ctx context.Context, node, boot string) (bool, error) {
	var f NodeFence
	if err := r.Reader.Get(ctx, types.NamespacedName{Name: NameOf(node)}, &f); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	d := deathOf(&f)
	return d != nil && !d.Contradicted && d.Boot == boot && d.Node == node, nil
}

// findings are the deaths of boots that Nodes show at present: what was found of a boot before is known by the new one.
//
// Invariant: a death is found only when the Lease of the node has run out. A board that lies about a machine whose kubelet reaches the API
// server would otherwise be believed by agents that cannot reach it, and act sooner than the recovery does.
// Nor is a death sent while it is in dispute.
func findings(fences []NodeFence, nodes map[string]nodefence.Node, ranOut func(node string) bool) (out []deaths.Death) {
	for i := range fences {
		d := deathOf(&fences[i])
		if d == nil || nodes[d.Node].Boot != d.Boot {
			continue
		}
		// In dispute for a moment is each node that boots: its Lease comes before its boot. So that is sent as
		// nothing.
		if disputed := nodes[d.Node].Disputed == d.Boot; !d.Contradicted && (disputed || !ranOut(d.Node)) {
			continue
		}
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b deaths.Death) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// renewal is the latest renewal of a Lease that was seen when all Leases were read, and since when.
type renewal struct {
	lease string
	since time.Time // by this replica's clock: when the first look that saw it had read it
	lasts time.Duration
}

// next is what follows from a look that has read the Lease by that moment.
func (r renewal) next(text string, read time.Time, lasts time.Duration) renewal {
	if r.lease != text {
		r.since = read
	}
	return renewal{text, r.since, lasts}
}

// ranOut reports whether, when the latest read of all Leases began, the Lease of a node had not been renewed for its
// whole duration. A Lease that is not there says nothing.
//
// Invariant: it only uses this replica's clock and the start of its reads: the node's clock, which is in the Lease,
// may be hours behind, and a read may be slow. A replica that has just started waits as long.
func (r *Runner) ranOut(node string) bool {
	l, known := r.renewals[node]
	return known && r.listedAt.Sub(l.since) > l.lasts
}
