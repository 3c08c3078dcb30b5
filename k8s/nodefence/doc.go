// Package nodefence decides how the fencing of one node goes on: [Decide] looks at its NodeFence, its Node, its Jobs and
// the configuration, and returns the one write that comes next. It remembers nothing. All that has to be remembered is in
// the NodeFence, so that a controller may be killed between any two writes, and several may work at one node.
//
// One NodeFence is about one boot of one node. Its steps are isolation, power_management and recovery; each runs its
// methods in order, a Job for each. docs/power.md has the table.
//
// Invariants, with the guards that keep them:
//
//   - No Job runs twice for one try. A Job is made suspended, its UID is written into the NodeFence under a precondition on
//     its resourceVersion, and only a Job whose UID is written there is started. A Job that a late controller makes again has
//     another UID and never runs.
//   - Nothing is cut off before the image has said that each method of the node is possible: its program, options and Secrets
//     are there. A fault that is found only when a method's turn comes would leave a node without its storage, but with its
//     power and its pods.
//   - No on before the last off. An on is made only after each off of the same try has succeeded, and another try begins
//     only when nothing of the one before can run any more.
//   - The storage of a boot that was isolated is given back only when that boot has ended: the Node is Ready with another
//     one, or a proof says so that nothing has spoken against, and its Lease has run out.
//   - A boot that was heard after it was called dead is never treated worse than a boot of which nothing is known. A dispute
//     withdraws all that rests on any proof, from the first moment; and so do two agents that see the boot, as long as
//     they do.
//   - Power is proof only when each method that switches it off was confirmed by its device, and all of them were off when
//     they were asked once more at one time: after the last has said off, also if nothing was switched.
//   - That nothing of a boot lands on a storage any more is said only after each method of that storage was confirmed and
//     its barrier has ended, or the time for which the operator vouches; and nothing is switched on before all who were
//     told so have done ([Object.Severed]).
//
// Everything is an argument: the caller (k8s/fencing) reads the NodeFence first and its Jobs after that, from the API server
// and not from a cache. All functions are pure and may be called from any goroutine.
package nodefence
