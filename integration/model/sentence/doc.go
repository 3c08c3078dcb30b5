// Package sentence is a model of nodes that condemn themselves: the rules P1 to P9 of docs/adr/0021, by which a node that has
// lost gives up its right to feed for good, makes its countdown short, and then tells how long it can last. Each rule can be
// left out. A search of all states within bounds, the nearest first, says what then goes wrong and by which shortest history.
//
// It is a model of rules, not a test of the agent: it shares no code with it. Only tests use it. It has no goroutines and
// blocks on nothing.
//
// # What is modelled
//
// There are two models, each with its own question.
//
// [Group] is three to five nodes with a network that is any graph, and a slot each: whom does a group lose that condemns
// itself? Time passes in ticks, in which each node asks its peers, reads all slots, decides and writes, one after the other. A
// write hangs and lands later. A half of four is granted when all of it count it and the holders before are done.
//
// The other one, [Loss], is a group whose nodes need network and LUN (lun.mode: and, rule E3): whom does it lose when paths to
// the LUN fail, or the LUN does? Some nodes notice later than others.
//
// # What is checked
//
// A node that condemns itself leaves a majority, or a granted half, that lives or did two ticks ago.
//
// # What is not
//
// One machine with its watchdog, whose agents are killed in the middle of a sentence: docs/spec/sentence.pml. Lists of members
// that change, samples, a Lease, clocks of different speed, several devices.
package sentence
