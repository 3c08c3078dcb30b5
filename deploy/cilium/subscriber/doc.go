// Package subscriber takes the backends of nodes that the fencing agent calls LEFT out of
// Cilium's load balancer, within milliseconds and without the Kubernetes API. It is a hive
// cell for cilium-agent, built on the public Writer of the load balancer.
//
// # State and invariants
//
// The state is one set: the nodes that are out. The selection of backends is a function of
// it, so nothing is left behind when the set is empty again or the process restarts.
//
//   - Kubernetes' view applies, that is, the set is empty, until the agent's first good answer and again once the
//     agent has been silent for the hold time; while the agent does not list this node as available, since it then has
//     no quorum; and while more of the nodes are LEFT than a limit allows, since it is then more likely that this node
//     is cut off.
//   - Only backends of the local cluster, on another node, are taken out. Routes, tunnels and everything else that
//     belongs to nodes are never touched.
//   - A frontend whose usable backends are all on LEFT nodes keeps them, unless configured otherwise: the agent may be
//     wrong, and removing the last backends would make the outage certain.
//   - The set changes within a write transaction of the load balancer, which also refreshes every frontend that has a
//     backend on a node that changed. Another writer changes a frontend either before that, and the frontend is
//     refreshed, or after it, and selects by the new set.
//
// # Concurrency
//
// One job follows the agent and is called back by it, one update at a time. The selection
// runs in the transactions of the writers to the load balancer, and later when the
// reconciler walks the backends; it reads the set by an atomic pointer, once, when it begins.
//
// # Errors
//
// Only flags that cannot work stop cilium-agent. An agent that is away is reported in the module's health, in the
// metrics, and with one log line per change.
package subscriber
