// Package fencing carries out what k8s/nodefence decides: it reads ConfigMaps, Nodes, NodeFences and Jobs, and writes
// NodeFences and Jobs, one at a time.
//
// [Runner.Start] is a goroutine of the manager of cmd/fencing-controller and blocks until its context ends. It goes round by
// polling: every two seconds while there is a NodeFence, else every poll_interval. All of its reads are answered by the
// API server itself, the NodeFence before its Jobs and the Node last, as k8s/nodefence wants them. Each replica has a
// Runner; a replica that is not first in the order of k8s/ownership leaves a write to the others for a while.
package fencing
