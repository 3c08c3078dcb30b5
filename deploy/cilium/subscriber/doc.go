// Package subscriber takes the backends of nodes that the fencing agent calls LEFT out of
// Cilium's load balancer, within milliseconds and without the Kubernetes API. It is a hive
// cell for cilium-agent, built on the public Writer of the load balancer.
//
// # State and invariants
//
// The state is one set: the nodes that are out. The selection of backends is a function of
// it, so nothing is left behind when the set is empty again or the process restarts.
//
//   - Kubernetes' view applies, that is the set is empty, until the agent's first good answer
//     and again when it has been silent for the hold time; while this node is not
//     available to the agent, which then has no quorum; and while more of the nodes are LEFT
//     than a limit allows, since the one that is cut off is then more likely this node.
//   - Only backends of the local cluster, on another node, are taken out. Routes, tunnels and
//     all else that belongs to nodes are never touched.
//   - A frontend whose usable backends are all on LEFT nodes keeps them, unless configured
//     otherwise: an outage that the agent may be wrong about is not made a certain one.
//   - The set changes within a write transaction of the load balancer, which also refreshes
//     every frontend that has a backend on a node that changed. Another writer of a
//     frontend does it before, and is refreshed, or after, and selects by the new set.
//
// # Concurrency
//
// One job follows the agent and is called back by it, one update at a time. The selection
// runs in the transactions of the writers to the load balancer, and later when the
// reconciler walks the backends; it reads the set by an atomic pointer, once, when it begins.
//
// # Errors
//
// None of them stops cilium-agent but flags that cannot work. An agent that is away is
// reported in the module's health, in the metrics, and with one log line per change.
package subscriber
