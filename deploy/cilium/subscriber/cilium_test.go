//go:build !cilium119 && !cilium118

package subscriber

import (
	"github.com/cilium/cilium/pkg/k8s/tables"
	"github.com/cilium/cilium/pkg/loadbalancer"
	"github.com/cilium/cilium/pkg/source"
)

var podTables = tables.TablesCell

func newBackend(node string, state loadbalancer.BackendState, from source.Source) backend {
	return &loadbalancer.Backend{NodeName: node, State: state, Source: from}
}
