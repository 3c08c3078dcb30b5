// Package terms is a model of one rule: an equal split is arbitrated only by nodes that agree on how to break ties
// (docs/lease.md, T1 to T4). It searches for two halves that could both be granted, each by an arbiter that the other
// does not use.
//
// # What is modelled
//
// Nodes are started, killed, reset and restarted with any of two settings, in any order and at any time. A setting is
// a name, which a node announces to others, and a medium, which contains its slot: two LUNs have two names, while a
// LUN and its clone share one. A node that starts has lost everything except a file. What it writes to the file may
// take effect only later, or never if it is killed before. Statements travel as answers to questions of the present
// process, for any time. There is no network: any node may hear any other at any time or never, which covers every
// split.
//
// Ballots, grants and time are not modelled. Two halves that agree on two media count as two winners, whether or not
// they would win.
//
// # Use
//
// [Search] visits every state of a group of two; [Walk] takes random steps in larger groups, from a seed. Both return
// the history that leads to two winners, or none. Each rule can be left out, and the tests say which history follows.
// The package uses one goroutine, and nothing blocks.
package terms
