// Package client follows which nodes the agent of this node calls available. It is for programs that move traffic or
// count members accordingly: a CNI, a load balancer, a leader election.
//
// [FollowDeaths] and [WaitFenced] are for programs that take over what a dead node had. They follow the rules of
// docs/consumers.md, and use [FollowStatus]. The rest of this comment is about [Follow].
//
// [Follow] connects to the agent's Unix socket, keeps the set, and survives restarts of the agent. It passes the
// present state and the changes to a callback. [Stream] is one stream until it ends, for programs that handle
// connections themselves.
//
// # State and invariants
//
//   - No event is lost or repeated: the stream is open before the set is asked for, and events that the set already
//     contains are skipped by comparing revisions.
//   - Every set that the callback sees was the agent's set at one moment. The edges of an update lead from the set of the
//     previous update to its own. A slow callback misses moments, never changes: a node that left and came back
//     meanwhile shows both edges.
//   - What is kept for a slow callback is limited by the number of nodes, not of events. The stream is read in any case,
//     so the agent never ends it for slowness.
//   - A set is in force ([State.InForce]) from the first good answer until the agent has been silent for [Config.Hold]: no
//     event, no answer to a question asked at least once a second, no orderly end. The next answer puts it in force again,
//     and that update contains the changes in between.
//   - A node is in [State.Left] only if this agent, or an earlier one that this follower heard, called it available
//     and then LEFT. A node that was never met, for instance because no agent runs on it yet, is in neither set.
//
// LEFT allows traffic to be moved, and nothing more; docs/consumers.md lists what each proof allows. A consumer that is
// about to drop most of the group at once has more likely been cut off itself.
//
// # Concurrency
//
// Follow blocks until its context ends. It calls back one call at a time, though not always from the same goroutine:
// the goroutine that reads a single event reports it, and Follow's own goroutine reports everything else. The callback
// may take any time: if it delays the reader for more than 10 ms, another goroutine continues to read. Further
// goroutines ask and connect; Follow waits for all of them. Times are measured on Go's monotonic clock, which stops
// while the machine is suspended.
//
// # Errors
//
// Everything that keeps the agent from answering counts as temporary: Follow tries again, after pauses that grow to two
// seconds, and reports it in [State.Err]. Follow returns an error only for a [Config] that cannot work.
package client
