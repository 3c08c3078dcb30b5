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

// deathOf returns the death that a NodeFence proves by its node's devices or crash kernel; nil: it proves none.
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

// findings returns the proven deaths of boots that Nodes show now. A Node that shows a newer boot makes the older death
// unnecessary.
//
// Invariant: a death is found only when the Lease of the node has run out. A board may lie about a machine whose
// kubelet reaches the API server. Agents that cannot reach it would believe the board, and act sooner than the recovery
// does. A death that is in dispute is not sent either.
func findings(fences []NodeFence, nodes map[string]nodefence.Node, ranOut func(node string) bool) (out []deaths.Death) {
	for i := range fences {
		d := deathOf(&fences[i])
		if d == nil || nodes[d.Node].Boot != d.Boot {
			continue
		}
		// Each node that boots is in dispute for a moment, as its Lease is renewed before its boot is shown. So this
		// dispute alone sends nothing.
		if disputed := nodes[d.Node].Disputed == d.Boot; !d.Contradicted && (disputed || !ranOut(d.Node)) {
			continue
		}
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b deaths.Death) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// renewal is the latest renewal of a Lease that was seen when all Leases were read, and since when it has been the
// latest.
type renewal struct {
	lease string
	since time.Time // by this replica's clock: when the first look that saw it had read it
	lasts time.Duration
}

// next returns the renewal after another look, which has read the Lease by that moment.
func (r renewal) next(text string, read time.Time, lasts time.Duration) renewal {
	if r.lease != text {
		r.since = read
	}
	return renewal{text, r.since, lasts}
}

// ranOut reports whether the Lease of a node had not been renewed for its whole duration when the latest read of all
// Leases began. A missing Lease has not run out.
//
// Invariant: it only uses this replica's clock and the start of its reads. The node's clock, which is in the Lease, may
// be hours behind, and a read may be slow. A replica that has just started waits for the whole duration.
func (r *Runner) ranOut(node string) bool {
	l, known := r.renewals[node]
	return known && r.listedAt.Sub(l.since) > l.lasts
}
