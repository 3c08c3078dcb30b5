// Package demo walks a cluster of agents through its life on one machine and tells a
// person what happens: all up, a network lost, an equal split, the heal, a node's
// death and return. It is what "laboratory demo" and `make demo` run.
//
// # State and invariants
//
// The demo drives a [lab.Cluster] and watches it through the agents' gRPC sockets only
// (package observe), so it sees what an operator and a subscriber see. Each printed line
// with a mark is an expectation; the first that does not hold ends the demo with an
// error. Bounds on time come from the time budget that the agents publish.
//
// # Where it runs
//
// Where namespaces are allowed the agents are processes of the unmodified binary and
// nftables drops the packets (lab.Agents). Elsewhere they run in this process and their
// packets pass a netgossiptest.Dropper ([InProcess]); the first lines say which.
//
// # Concurrency and blocking
//
// Run blocks until the scenario is over, with Options.Keep until the context ends.
// However it ends, everything that it started is stopped, and its files are removed
// unless an expectation failed.
package demo
