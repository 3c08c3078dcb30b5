package fencing

import (
	"cmp"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

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
// Nor is one told while it is in dispute.
func findings(fences []NodeFence, nodes map[string]nodefence.Node, ranOut func(node string) bool) (out []Finding) {
	for i := range fences {
		f := &fences[i]
		p := f.Status.Proof
		if p == nil || p.Kind != nodefence.ByPower && p.Kind != nodefence.ByKdump || p.Boot == "" || p.Boot != f.Status.Boot ||
			f.Name != NameOf(f.Spec.NodeName) || nodes[f.Spec.NodeName].Boot != p.Boot {
			continue
		}
		// In dispute for a moment is each node that boots: its Lease comes before its boot. So that is told as nothing.
		if disputed := nodes[f.Spec.NodeName].Disputed == p.Boot; !p.Contradicted && (disputed || !ranOut(f.Spec.NodeName)) {
			continue
		}
		out = append(out, Finding{f.Spec.NodeName, p.Boot, p.Kind, f.Name, p.At.UTC(), p.Contradicted})
	}
	slices.SortFunc(out, func(a, b Finding) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// renewal is which renewal of a Lease the looks at all of them have seen last, and since when.
type renewal struct {
	lease string
	since time.Time // by this replica's clock: when the first look that saw it had read it
	lasts time.Duration
}

// next is what a look makes of it that has read the Lease by that moment.
func (r renewal) next(l *coordinationv1.Lease, read time.Time, lasts time.Duration) renewal {
	text := string(l.UID) + l.Spec.RenewTime.UTC().Format(time.RFC3339Nano)
	if r.lease != text {
		r.since = read
	}
	return renewal{text, r.since, lasts}
}

// ranOut reports whether the Lease of a node was not renewed for as long as it lasts when the latest look at all Leases began. One
// that is not there says nothing.
//
// Invariant: it goes by this replica's clock alone, and by looks: the clock of the node, which the Lease has, may be behind for
// hours, and what is read after a look may be slow. A replica that has just started waits as long.
func (r *Runner) ranOut(node string) bool {
	l, known := r.renewals[node]
	return known && r.listedAt.Sub(l.since) > l.lasts
}
