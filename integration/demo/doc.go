// Package demo walks a cluster of agents through its life on one machine and tells a
// person what happens: all up, a network lost, an equal split, the heal, a node's
// death and return. It is what "laboratory demo" and `make demo` run.
//
// # State and invariants
//
// The demo drives the agents of a [lab.Stage], or, where nobody may create namespaces, agents of this process, and
// watches them through their gRPC sockets only (package observe), so it sees what an operator and a subscriber see.
// Each printed line with a mark is an expectation; the first that does not hold ends the demo with an error. Bounds on
// time come from the time budget that the agents publish.
//
// # Concurrency and blocking
//
// Run blocks until the scenario is over, with Options.Keep until the context ends.
// However it ends, everything that it started is stopped; its files are removed unless it failed.
package demo
