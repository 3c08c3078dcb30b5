//go:build cilium119 || cilium118

package subscriber

import (
	"iter"

	"github.com/cilium/statedb"

	"github.com/cilium/cilium/pkg/loadbalancer"
	"github.com/cilium/cilium/pkg/loadbalancer/writer"
)

// backend is one backend of one service, in the type from which Cilium 1.18 and 1.19 select.
type backend = loadbalancer.BackendParams

// backendsOf returns all backends, with the service of each. If several sources name a backend, one of them may be a
// source that Cilium does not use: then one service too many is selected again, but never one too few.
func backendsOf(w *writer.Writer, txn statedb.ReadTxn) iter.Seq2[loadbalancer.ServiceName, backend] {
	return func(yield func(loadbalancer.ServiceName, backend) bool) {
		for be := range w.Backends().All(txn) {
			for key, instance := range be.Instances.All() {
				if !yield(key.ServiceName, instance) {
					return
				}
			}
		}
	}
}
