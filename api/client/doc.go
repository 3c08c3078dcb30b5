// Package client follows which nodes the agent of this node calls available, for programs that move traffic or count
// members accordingly: a CNI, a load balancer, a leader election.
//
// [FollowDeaths] and [WaitFenced] are for programs that take over what a dead node had; they follow the rules of
// docs/consumers.md, and use [FollowStatus]. The rest of this comment is about [Follow].
//
// [Follow] connects to the agent's Unix socket, keeps the set, survives restarts of the agent and tells a callback the
// present state and what has changed. [Stream] is one stream until it ends, for programs that handle connections
// themselves.
//
// # State and invariants
//
//   - No gap and nothing twice: the stream is open before the set is asked for, and events that the set contains
//     already are skipped by comparing revisions.
//   - Every set the callback sees was the agent's at one moment, and the edges of an update lead from the set of the
//     previous update to its own. A slow callback misses moments, never changes: a node that left and came back
//     meanwhile shows both edges.
//   - What is kept for a slow callback is bounded by the number of nodes, not of events. The stream is read all the
//     same, so the agent never ends it for slowness.
//   - A set is in force ([State.InForce]) from the first good answer until the agent has said nothing for
//     [Config.Hold]: no event, no answer to a question asked at least once a second, no orderly end. The next answer
//     puts it in force again, and that update has what changed meanwhile.
//   - A node is in [State.Left] only if this agent, or an earlier one that this follower heard, called it available
//     and then LEFT. A node that was never met, for instance because no agent runs on it yet, is in neither set.
//
// LEFT allows traffic to be moved, and nothing more; docs/consumers.md says what each proof allows. A consumer that is
// about to drop most of the group at once has more likely been cut off itself.
//
// # Concurrency
//
// Follow blocks until its context ends. It calls back one call at a time, though not always from the same goroutine: a
// single event is reported by the goroutine that reads it, everything else by Follow's own. The callback may take as
// long as it likes: if it keeps the reader for more than 10 ms, another goroutine goes on reading. Further goroutines
// ask and connect; Follow waits for all of them. Times are measured on Go's monotonic clock, which stops while the
// machine is suspended.
//
// # Errors
//
// Whatever keeps the agent from answering is treated as temporary: Follow tries again, after pauses that grow to two
// seconds, and reports it in [State.Err]. Follow returns an error only for a [Config] that cannot work.
package client
