// Csi is the part of the cluster's storage that runs on a node: csi NODE FOLDER. FOLDER has a folder for each volume.
// The node's guest starts it beside the kubelet.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/fencing-agent/fencing-agent/integration/cluster/csi"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: csi NODE FOLDER")
		os.Exit(2)
	}
	if err := csi.ServeNode(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "csi:", err)
		os.Exit(1)
	}
}
