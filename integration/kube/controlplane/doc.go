// Package controlplane runs a real etcd and a real kube-apiserver on loopback, for tests that no fake can replace:
// watches that expire, throttling, slow answers, restarts, denied requests, admission, the schemas of manifests.
//
//	              +--------------------------------------------+
//	client -----> | kube-apiserver (TLS, RBAC, Node, admission)| --> etcd
//	   |          +--------------------------------------------+
//	   +--> [Proxy]: delays, refuses, freezes, loses replies -^      audit log --> [ControlPlane.Requests]
//
// There is no controller manager, scheduler or kubelet unless [Config.Nodes] asks for the first two: only the test
// changes objects, and nobody deletes what it leaves behind. integration/cluster starts kubelets. The programs are
// parts of one binary, integration/kube/cmd/kubetest.
//
// # State and invariants
//
//   - Everything is in one folder of the caller: keys, etcd's data, the logs of the programs, the audit log. This
//     package removes nothing, so that the logs of a failed test can be read.
//   - The address, the keys and the data stay the same across a stop and start of the API server, so that a client
//     needs no new configuration, as in a cluster.
//   - The programs are children with a parent-death signal, started by threads that live as long as they do. They do
//     not survive the test's process, however it ends.
//   - Ports are chosen below the kernel's ephemeral range, and chosen again if another process took one first.
//   - etcd does not sync to the disk: what is tested survives the end of a process, but not that of a machine.
//
// # Who is who
//
// [ControlPlane.Admin] is in system:masters, which passes all authorization. Others get their rights as in any
// cluster, from RBAC objects and tokens of service accounts ([ControlPlane.ServiceAccountToken]).
//
// # Concurrency and blocking
//
// All methods may be called from any goroutine, but stops and starts exclude each other. Start takes 3 s on an idle
// machine and about 0.4 GB of memory. Methods that take a context return when it ends. Close stops all programs and
// waits for them.
//
// # Errors
//
// If a program did not start, or ended, the error contains the last lines of its log and the log's path.
package controlplane
