// Package belief says which of the deaths that agents report on their Nodes (k8s/deaths) a controller believes.
//
// A death is of one boot of one node. [Judge] believes it if enough Nodes name it: [Settings.MinReporters] different
// ones, or all the others of a group that has fewer, but never fewer than two; or one, if the API server says of the
// dead node what no agent can make it say ([Question.Unknown]), or if an operator has named the group
// ([Settings.GroupsOfTwo]). docs/adr/0026 says why, and what this does not protect against.
//
// Invariants: a Node counts as a reporter only if it
//
//   - is another Node than the dead one, and has its group;
//   - has a Lease that was renewed within half of its duration;
//   - names exactly the boot that is asked about;
//   - is not itself named dead, for the boot that it runs, by as many Nodes as it takes to believe that.
//
// A Node counts only if it named the death in the boot that it runs now (Said of [deaths.Death]): otherwise its agent
// has not checked since it was reset, and all may have been wrong before.
//
// A boot is believed to have ended without any reporter if the devices that switch its node's power have said that it was
// off ([Question.Power]); but not if a Node that named the boot takes its word back.
//
// A Node that named a boot before, and no longer names it, has taken its word back, unless its list is full ([Node.Full]).
//
// Everything is an argument: the caller (k8s/reconcile) reads from the API server, and not from a cache, before
// anything that cannot be undone. All functions are pure and may be called from any goroutine.
package belief
