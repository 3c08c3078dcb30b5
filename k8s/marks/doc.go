// Package marks writes what the agent has to report about its node to this node's Node: labels, annotations and Events,
// for people and for programs that look at Nodes.
//
// # What it writes
//
// [Writer.Want] sets which labels and annotations the Node should have or not have; others are never changed. They are
// compared with those of the Node ([Writer.Seen]), so that a restart writes nothing, and a change by somebody else is
// reverted. [Writer.Event] creates an Event. Nothing of this is read to decide on the watchdog.
//
// [Outbox] passes on one report, such as the deaths that the agent knows (k8s/deaths). Other programs act on it, so it
// is retried sooner than the rest. It is sent at a random moment, since all agents of a group have the same to report at
// the same time. [Annotation] sends it by patches of one annotation, with nothing else in them; an agent with
// members.source: controller sends it by a call to fencing-controller.
//
// # Bounds
//
// Writing has the lowest priority. A write that does not succeed within [writeTimeout] is retried with growing pauses,
// and only the newest wishes are written. The newest [queueLength] Events are kept, if they are no older than
// [eventAge]. At most [eventBurst] are sent at once, and in the long run one in each [eventInterval]. Dropped Events
// are counted.
//
// # Concurrency
//
// [Writer.Run] and [Outbox.Run] have the only goroutines, and the only ones that wait for the API server. The other
// methods hold a mutex for a few instructions, and may be called from the agent's loop.
package marks
