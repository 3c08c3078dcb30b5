// Package belief decides which of the deaths that agents report on their Nodes (k8s/deaths) a controller believes.
//
// A death is of one boot of one node. [Judge] believes it if enough Nodes name it. Normally that is
// [Settings.MinReporters] different Nodes. In a smaller group it is all the others, but never fewer than two. One is
// enough if the API server shows about the dead node what no agent can write ([Question.Unknown]), or if an operator
// has listed the group ([Settings.GroupsOfTwo]). docs/adr/0026 gives the reasons, and what this does not protect
// against.
//
// Invariants: a Node counts as a reporter only if it
//
//   - is another Node than the dead one, and has the same group;
//   - has a Lease that was renewed within half of its duration;
//   - names exactly the boot that is asked about;
//   - is not itself named dead, for the boot that it runs, by as many Nodes as are needed to believe that.
//
// A Node counts only if it named the death in the boot that it runs now (Said of [deaths.Death]). Otherwise its agent
// has not checked since the node was reset, and all may have been wrong before.
//
// A boot is believed to have ended without any reporter if the devices that switch its node's power have reported that
// it was off ([Question.Power]). This does not hold if a Node that named the boot takes its report back.
//
// A Node that named a boot before, and no longer names it, has taken its report back, unless its list is full
// ([Node.Full]).
//
// The caller (k8s/reconcile) passes everything as an argument. Before anything that cannot be undone it reads from the
// API server, and not from a cache. All functions are pure and may be called from any goroutine.
package belief
