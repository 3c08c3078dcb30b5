package subscriber

import (
	"iter"
	"sync/atomic"

	"github.com/cilium/statedb"

	"github.com/cilium/cilium/pkg/loadbalancer"
	"github.com/cilium/cilium/pkg/source"
)

type backends = iter.Seq2[backend, statedb.Revision]

// selectFunc chooses the backends of a frontend.
type selectFunc = func(statedb.ReadTxn, backends, *loadbalancer.Service, *loadbalancer.Frontend) backends

// selection removes the backends of some nodes before another selection chooses. To the other selection they are gone:
// ClusterMesh's affinity and the topology hints fall back to the remaining ones as if Kubernetes had removed them.
type selection struct {
	base     selectFunc
	keepLast bool // a frontend whose usable backends are all out keeps them
	out      atomic.Pointer[nodeSet]
	used     atomic.Uint64 // number of calls; if a refresh causes none, another component took the hook
}

func newSelection(base selectFunc, keepLast bool) *selection {
	s := &selection{base: base, keepLast: keepLast}
	s.out.Store(&nodeSet{})
	return s
}

// choose is a selectFunc. The reconciler walks the returned sequence again after the transaction, so the set of nodes
// is read here.
func (s *selection) choose(txn statedb.ReadTxn, all backends, svc *loadbalancer.Service, fe *loadbalancer.Frontend) backends {
	s.used.Add(1)
	out := *s.out.Load()
	if len(out) == 0 {
		return s.base(txn, all, svc, fe)
	}
	rest := func(yield func(backend, statedb.Revision) bool) {
		for be, rev := range all {
			if !isOut(be, out) && !yield(be, rev) {
				return
			}
		}
	}
	chosen := s.base(txn, rest, svc, fe)
	if s.keepLast && !anyUsable(chosen) {
		if whole := s.base(txn, all, svc, fe); anyUsable(whole) {
			return whole
		}
	}
	return chosen
}

// isOut reports whether be is on one of the nodes. Names of nodes are those of the local cluster, so another cluster's
// backends are never out.
func isOut(be backend, out nodeSet) bool {
	return be.NodeName != "" && be.ClusterID == 0 && be.Source != source.ClusterMesh && out.has(be.NodeName)
}

// anyUsable reports whether traffic can be sent to any of the backends. Terminating backends count: if there are no
// others, they still serve.
func anyUsable(bes backends) bool {
	for be := range bes {
		if !be.Unhealthy && (be.State == loadbalancer.BackendStateActive || be.State == loadbalancer.BackendStateTerminating) {
			return true
		}
	}
	return false
}
