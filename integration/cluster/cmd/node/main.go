// Node is the program that runs in a node of a cluster, beginning with its process 1; see package guest. Only the
// harness starts it.
package main

import (
	"fmt"
	"os"

	"github.com/fencing-agent/fencing-agent/integration/cluster/guest"
)

func main() {
	if err := guest.Main(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}
