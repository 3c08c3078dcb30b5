// Package fencing carries out what k8s/nodefence decides: it reads ConfigMaps, Nodes, NodeFences and Jobs, and writes
// NodeFences and Jobs, one at a time.
//
// [Runner.Start] is a goroutine of the manager of cmd/fencing-controller and blocks until its context ends. It polls:
// every two seconds while there is a NodeFence, else every poll_interval. The API server itself answers all reads, not
// a cache. As k8s/nodefence requires, a NodeFence is read before its Jobs, and the Node last. Each replica has a
// Runner. A replica that is not first in the order of k8s/ownership leaves a write to the replicas before it for a
// while.
package fencing
