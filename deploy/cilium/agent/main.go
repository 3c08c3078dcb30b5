// Command agent is cilium-agent with the subscriber of the fencing agent.
package main

import (
	"log/slog"

	"github.com/cilium/hive/cell"

	"github.com/cilium/cilium/daemon/cmd"
	"github.com/cilium/cilium/pkg/clustermesh"
	"github.com/cilium/cilium/pkg/hive"
	"github.com/cilium/cilium/pkg/loadbalancer/writer"

	"github.com/fencing-agent/fencing-agent/deploy/cilium/subscriber"
)

func main() {
	cmd.Execute(cmd.NewAgentCmd(func() *hive.Hive {
		// The order matters: the last cell to set the hook of the selection keeps it.
		return hive.New(cmd.Agent, cell.Provide(base), subscriber.Cell)
	}))
}

// base returns ClusterMesh's selection if ClusterMesh is on: the cell takes over the hook of ClusterMesh, and builds on
// its selection.
func base(mesh *clustermesh.ClusterMesh, w *writer.Writer, log *slog.Logger) *subscriber.Base {
	if mesh == nil {
		return nil
	}
	return &subscriber.Base{Select: clustermesh.NewClusterMeshSelectBackends(w, log).SelectBackends}
}
