// Package demo leads a cluster of agents through its life on one machine and tells a person what happens: all up, a
// network lost, an equal split, the heal, a node's death and return. "laboratory demo" and `make demo` run it.
//
// # State and invariants
//
// The demo controls the agents of a [lab.Stage] or, where namespaces are not allowed, agents of this process. It only
// watches them through their gRPC sockets (package observe), so it sees what an operator and a subscriber see. Each
// printed line with a mark is an expectation; the first that does not hold ends the demo with an error. Bounds on time
// come from the time budget that the agents publish.
//
// # Concurrency and blocking
//
// Run blocks until the scenario is over, with Options.Keep until the context ends. However it ends, everything that it
// started is stopped; its files are removed unless it failed.
package demo
