// Package netns tests the real binaries of this repository in network namespaces: two
// networks over two bridges, partitions by nftables, a LUN on loop devices over one
// file. It has tests only, which "make test-netns" runs as root:
//
//	FENCING_TEST_NETNS=1 go test ./integration/netns -v -rounds 50
//
// Elsewhere they skip and say why. Package lab makes the places, package observe
// watches the agents through their sockets.
package netns
