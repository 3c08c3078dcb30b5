// Plugin is a device plugin with one device: plugin RESOURCE DEVICE.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/fencing-agent/fencing-agent/integration/cluster/deviceplugin"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: plugin RESOURCE DEVICE")
		os.Exit(2)
	}
	if err := deviceplugin.Serve(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		os.Exit(1)
	}
}
