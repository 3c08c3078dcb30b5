//go:build !cilium119 && !cilium118

package subscriber

import (
	"iter"

	"github.com/cilium/statedb"

	"github.com/cilium/cilium/pkg/loadbalancer"
	"github.com/cilium/cilium/pkg/loadbalancer/writer"
)

// backend is one backend of one service, in the type from which Cilium 1.20 selects.
type backend = *loadbalancer.Backend

func defaultSelection(w *writer.Writer) selectFunc { return w.DefaultSelectBackends }

func setSelection(w *writer.Writer, choose selectFunc) { w.SetSelectBackendsFunc(choose) }

// backendsOf returns all backends, with the service of each.
func backendsOf(w *writer.Writer, txn statedb.ReadTxn) iter.Seq2[loadbalancer.ServiceName, backend] {
	return func(yield func(loadbalancer.ServiceName, backend) bool) {
		for be := range w.Backends().All(txn) {
			if !yield(be.ServiceName, be) {
				return
			}
		}
	}
}
