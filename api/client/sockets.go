package client

import (
	"os"
)

// sockets lists where an agent may listen: the default of the configuration, and the path in the chart's DaemonSet.
var sockets = [...]string{DefaultSocket, "/run/fencing-agent/fencing-agent.sock"}

// FindSocket returns the path at which an agent, installed by a package or a DaemonSet, listens on this machine. It
// also works in a container that has the socket's folder at the same path. Without an agent it is DefaultSocket.
func FindSocket() string { return findSocket("", sockets[:]) }

// findSocket looks below a root.
func findSocket(root string, paths []string) string {
	for _, path := range paths {
		if info, err := os.Stat(root + path); err == nil && info.Mode().Type() == os.ModeSocket {
			return path
		}
	}
	return DefaultSocket
}
