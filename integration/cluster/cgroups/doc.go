// Package cgroups gives each node of a cluster in namespaces separate control groups. For everything that runs in the
// node, they are the root. It works on hosts with cgroup v1, with v2, and with both.
//
//	host    /sys/fs/cgroup/CONTROLLER/[own group/]NAME/NODE
//	                                                   ^
//	node    /sys/fs/cgroup/CONTROLLER  ----------------+   by a control group namespace
//
// The process that owns a cluster calls [Create] and [Set.Remove]. It calls [Set.Make] before a node's boot and
// [Set.Clear] after its end. The node's process 1 calls [Set.Join]; it then creates the namespace and calls [Mount]
// in its mounts. All state is in the kernel.
//
// With v2 a group that has processes cannot delegate controllers. [Mount] therefore moves the node's process 1 into a
// group init below the node's root, as a real machine's init does. The cluster's group is at the root of the
// hierarchy, because the group of a login session also has processes. With v1 it is in the group of the process that
// creates it.
//
// Only Remove and Clear wait, for at most a second, until the kernel has forgotten the last process.
package cgroups
