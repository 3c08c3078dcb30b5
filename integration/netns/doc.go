// Package netns tests the real binaries of this repository in network namespaces: two networks over two bridges,
// partitions by nftables, and a LUN on loop devices over one file. It contains only tests, which "make test-netns"
// runs as root:
//
//	FENCING_TEST_NETNS=1 go test ./integration/netns -v -rounds 50
//
// Otherwise they skip and say why. Package lab creates the namespaces, and package observe watches the agents through
// their sockets.
package netns
