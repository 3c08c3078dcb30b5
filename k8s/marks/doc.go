// Package marks writes to this node's Node what the agent has to say of it: labels, annotations
// and Events, for people and for programs that look at Nodes.
//
// # What it writes
//
// [Writer.Want] says which labels and annotations the Node is to have or not to have; others
// are never touched. They are compared with what the Node has ([Writer.Seen]), so that a
// restart writes nothing, and what somebody else has changed is put right. [Writer.Event]
// creates an Event. Nobody reads any of it back to decide on the watchdog.
//
// [Annotation] keeps one annotation by patches with nothing else in them: the deaths that the agent knows
// (k8s/deaths). Other programs act on it, so it is tried again sooner than the rest, and written at a random moment,
// since all agents of a group have the same to say at once.
//
// # Bounds
//
// Writing is the lowest of priorities: what cannot be written within [writeTimeout] is tried
// again with growing pauses, and only the newest wishes are written. The newest [queueLength]
// Events are kept, if they are no older than [eventAge]. At most [eventBurst] are sent at once,
// and in the long run one in each [eventInterval]. What is dropped is counted.
//
// # Concurrency
//
// [Writer.Run] and [Annotation.Run] own the only goroutines, and the only ones that wait for the API server. The
// other methods take a mutex for a few instructions, and may be called from the agent's loop.
package marks
