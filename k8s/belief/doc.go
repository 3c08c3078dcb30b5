// Package belief says which deaths a controller believes, of those that agents tell on their Nodes (k8s/deaths).
//
// A death is of one boot of one node. [Judge] believes it if enough Nodes name it: [Settings.MinReporters] different
// ones, or all the others of a group that has fewer; or one, if the API server says of the dead node what no agent can
// make it say ([Question.Unknown]). docs/adr/0026 says why, and what it does not protect from.
//
// Invariants: a Node counts as a reporter only if it
//
//   - is another Node than the dead one, and has its group;
//   - has a Lease that was renewed within half of its duration;
//   - names exactly the boot that is asked about;
//   - is not itself named dead, for the boot that it runs, by as many Nodes as it takes to believe that.
//
// One alone must also have named it in the boot that it runs ([Death.Said]).
//
// Everything is an argument: the caller (k8s/reconcile) reads from the API server, and not from a cache, before
// anything that cannot be undone. All functions are pure and may be called from any goroutine.
package belief
