// Package guest runs in a node of a cluster. It turns its namespaces, or its kernel, into a machine, starts containerd
// and a kubelet there, and answers the requests of the harness.
//
//	init    process 1 at first: waits for its networks, joins its control groups, sets its clock
//	root    process 1: mounts, devices, addresses; starts serve, and collects orphans
//	serve   starts containerd and kubelet, again when they end; answers requests on descriptor 3
//	hook    gives a container the node's boot id (a createContainer hook of containerd)
//	power   on the host, process 1 of the namespace around a kernel
//	kernel  process 1 of a node that has its own kernel, in place of init and root: mounts, modules, networks
//
// All nodes and the host share one kernel, and the kubelet writes some of its sysctls, so files replace these. What
// survives a boot is in the folder of the node: /var/lib, /var/log and /opt. Everything else is lost when process 1 is killed,
// which ends all processes in the node.
//
// [Main] returns only with an error. It is an error if a program cannot be started; a program that ends is started again
// after a second, as systemd would do it.
package guest
