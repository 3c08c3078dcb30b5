#!/bin/sh
# Makes a bridge with a tap for each of three machines, and holds the namespace of it until its input ends.
set -e
ip link add br0 type bridge
ip link set br0 up
for n in 1 2 3; do
	ip tuntap add "tap-n$n" mode tap vnet_hdr
	ip link set "tap-n$n" master br0 up
done
echo ready
exec cat
