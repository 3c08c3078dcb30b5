//go:build cilium119 || cilium118

package subscriber

import (
	daemonk8s "github.com/cilium/cilium/daemon/k8s"
	"github.com/cilium/cilium/pkg/loadbalancer"
	"github.com/cilium/cilium/pkg/source"
)

var podTables = daemonk8s.TablesCell

func newBackend(node string, state loadbalancer.BackendState, from source.Source) backend {
	return backend{NodeName: node, State: state, Source: from}
}
