// Package observe watches the agents of a cluster from outside, only through their gRPC sockets, and waits for what a
// scenario expects.
//
// # State and invariants
//
// An [Observer] stores the latest status of each node, and, for all nodes together, one list of membership events and
// one of verdict changes. The lists are in the order of arrival and dated by the observer's clock. Nothing is ever
// removed from them; a [View] is a consistent copy of everything at one moment. A status that has not been repeated for
// [MaxAge] counts as no status: an agent whose loop hangs is not "up".
//
// # Concurrency
//
// Two goroutines per node read the streams WatchStatus and StreamEvents and reopen them when they end. Close stops them
// and waits. Conditions run on the caller's goroutine, once per change, and must not keep the View's maps.
//
// # Errors
//
// A condition says in words what is still missing; when time runs out, the last of these texts is the error. If an
// agent has ended by itself, every wait ends at once.
package observe
