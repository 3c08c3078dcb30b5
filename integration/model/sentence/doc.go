// Package sentence is a model of nodes that condemn themselves. It contains the rules P1 to P9 of docs/adr/0021, by
// which a node that has lost gives up its right to feed for good, makes its countdown short, and then announces how
// long it can still run. Each rule can be left out. A search of all states within bounds, the nearest first, then
// finds what goes wrong, with the shortest history that leads there.
//
// It is a model of rules and not a test of the agent: the two share no code. Only tests use it. It has no goroutines
// and blocks on nothing.
//
// # What is modelled
//
// There are two models, each with its own question.
//
// [Group] asks which nodes a group loses that condemn themselves. It has three to five nodes, each with a slot, and a
// network that is any graph. Time passes in ticks, in which each node asks its peers, reads all slots, decides and
// writes, one node after the other. A write can hang and land later. A half of four is granted when all its nodes
// count it and the previous holders are done.
//
// [Loss] asks which nodes a group loses when paths to the LUN fail, or the LUN does. Its nodes need network and LUN
// (lun.mode: and, rule E3). Some nodes notice a loss later than others.
//
// # What is checked
//
// When a node condemns itself, a majority or a granted half lives, or did so two ticks ago.
//
// # What is not modelled
//
// One machine with its watchdog, whose agents are killed in the middle of a sentence, is modelled in
// docs/spec/sentence.pml. Lists of members that change, samples, a Lease, clocks of different speed and several
// devices are left out.
package sentence
