//go:build cilium118

package subscriber

import (
	"github.com/cilium/statedb"

	"github.com/cilium/cilium/pkg/loadbalancer"
	"github.com/cilium/cilium/pkg/loadbalancer/writer"
)

// In Cilium 1.18 a selection gets no transaction, and the load balancer's selection needs none.

func defaultSelection(w *writer.Writer) selectFunc {
	return func(_ statedb.ReadTxn, all backends, svc *loadbalancer.Service, fe *loadbalancer.Frontend) backends {
		return w.DefaultSelectBackends(all, svc, fe)
	}
}

func setSelection(w *writer.Writer, choose selectFunc) {
	w.SetSelectBackendsFunc(func(all backends, svc *loadbalancer.Service, fe *loadbalancer.Frontend) backends {
		return choose(nil, all, svc, fe)
	})
}
