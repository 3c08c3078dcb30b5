// Package nodefence decides how the fencing of one node continues: [Decide] looks at its NodeFence, its Node, its Jobs
// and the configuration, and returns the one write that comes next. It remembers nothing. The whole state is in the
// NodeFence, so that a controller may be killed between any two writes, and several may work on one node.
//
// One NodeFence is about one boot of one node. Its steps are isolation, power_management and recovery; each runs its
// methods in order, a Job for each. docs/power.md has the table.
//
// Invariants, with the guards that keep them:
//
//   - No Job runs twice for one try. A Job is created suspended. Its UID is written into the NodeFence under a precondition
//     on its resourceVersion, and only a Job whose UID is written there is started. A Job that a late controller creates
//     again has another UID and never runs.
//   - Nothing is cut off before the image has reported that each method of the node is possible: its program, options and
//     Secrets are there. If a fault was found only when a method's turn came, the node would have lost its storage, but
//     not its power and its pods.
//   - No on before the last off. An on is created only after each off of the same try has succeeded, and another try
//     begins only when nothing of the one before can still run.
//   - The storage of a boot that was isolated is given back only when that boot has ended. Either the Node is Ready with
//     another boot. Or a proof exists that nothing has disputed, and the Node's Lease has run out.
//   - A boot that was heard after it was called dead is never treated worse than a boot of which nothing is known. A dispute
//     withdraws everything that depends on any proof, from the first moment. Two agents that see the boot do the same, as
//     long as they see it.
//   - Power is proof only if the device has confirmed each method that switches it off, and all plugs were off at the same
//     time: after the last has reported off, all are asked once more, even if nothing was switched.
//   - That nothing of a boot lands on a storage any more is reported only after each method of that storage was confirmed,
//     and its barrier, or the time for which the operator vouches, has ended. Nothing is switched on before all programs
//     that act on this report are done ([Object.Severed]).
//
// The caller (k8s/fencing) passes everything as an argument. It reads the NodeFence first and its Jobs after that, from
// the API server and not from a cache. All functions are pure and may be called from any goroutine.
package nodefence
