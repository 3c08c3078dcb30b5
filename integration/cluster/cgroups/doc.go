// Package cgroups gives each node of a cluster in namespaces separate control groups. For everything that runs in the
// node, they are the root. It works on hosts with cgroup v1, with v2, and with both.
//
//	host    /sys/fs/cgroup/CONTROLLER/[own group/]NAME/NODE
//	                                                   ^
//	node    /sys/fs/cgroup/CONTROLLER  ----------------+   by a control group namespace
//
// [Create] and [Set.Remove] are called by the process that owns a cluster, [Set.Make] and
// [Set.Clear] before a node's boot and after its end, [Set.Join] by the node's process 1, which
// then makes the namespace and calls [Mount] in its mounts. Nothing has state but the kernel.
//
// With v2 a group that has processes cannot hand controllers down: [Mount] moves the node's
// process 1 into a group init below the node's root, as a real machine's init does. The
// cluster's group lies at the root of the hierarchy there, because the group of a login session
// has processes, too. With v1 it lies in the group of the process that makes it.
//
// Only Remove and Clear wait: until the kernel has forgotten the last process, a second at most.
package cgroups
