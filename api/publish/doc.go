// Package publish tells local consumers over gRPC which nodes are available and why. It decides nothing: the agent
// passes its decisions to it.
//
// # State and invariants
//
// A [Hub] holds the set of available nodes. Every change of the set is an event, and gets the next revision. A
// [Subscription] receives all events after its own revision, in order and without a gap, until it is ended. So the
// present set is the set at any revision plus the events of a subscription that began no later.
//
//   - No subscriber can delay a publisher or another subscriber. Each has a queue of fixed length; if it is full, the
//     subscriber is ended with [ErrSlow]. It gets its events without a gap up to some point and then the error, never
//     a stream with gaps.
//   - Before the first [Hub.Update] nothing is served at all. An empty answer from an
//     agent that has just started would mean "every node has left".
//   - The snapshot that GetAll serves is never older than an event that was already delivered.
//
// A [Server] serves a hub and the agent's status together with health and reflection; [Listen] creates its socket.
//
// # Concurrency
//
// The agent's loop calls Update, Publish, SetReady and StatusChanged. They hold a mutex only for the bookkeeping of one
// batch, and never wait for a client, a file or a channel. Config.Status is called from the goroutines of status calls
// and must not wait for the loop. Each event stream has two goroutines, the handler and the sender. Send blocks for as
// long as a client does not read, and only the return of the handler ends such a stream. [Server.Stop] waits for all of
// them.
//
// # Errors
//
// Sentinels are in errors.go; they become gRPC codes in one place, statusOf. A panic in a handler becomes INTERNAL: a
// fault here must not cost the node its watchdog.
package publish
