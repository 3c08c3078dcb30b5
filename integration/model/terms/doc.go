// Package terms is a model of one rule: an equal split is arbitrated only by nodes that agree
// on how (docs/lease.md, T1 to T4). It searches for two halves that could both be granted, each on
// an arbiter that the other does not use.
//
// # What is modelled
//
// Nodes are started, killed, reset and started again with any of two settings, in any order and
// at any time. A setting is a name, which a node tells others, and a medium, where its slot is: two
// LUNs have two names, a LUN and its clone share one. A node that starts has lost everything but a
// file, and what it writes there may take effect only later, or never if it is killed before. Statements
// travel as answers to questions of the present process, for as long as they like. There is no
// network: any node may hear any other at any time or never, which covers every split.
//
// Not modelled: ballots, grants and time. Two halves that agree on two media are counted as
// two winners, whether they would win or not.
//
// # Use
//
// [Search] visits every state of a group of two; [Walk] takes random steps in larger ones, from a
// seed. Both return the history that leads to two winners, or none. Each rule can be left
// out, and the tests say which history follows. One goroutine; nothing blocks.
package terms
