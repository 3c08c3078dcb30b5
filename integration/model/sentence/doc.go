// Package sentence is a model of nodes that condemn themselves: the rules P1 to P9 of docs/adr/0021, by which a node that has
// lost gives up its right to feed for good, makes its countdown short, and then tells how long it can last. Each rule can be
// left out. A search of all states within bounds, the nearest first, says what then goes wrong and by which shortest history.
//
// It is a model of rules, not a test of the agent: it shares no code with it. Only tests use it. It has no goroutines and
// blocks on nothing.
//
// # What is modelled
//
// There are three models, each with its own question. [Boot] is one machine with its watchdog, its agents one after the other,
// its slot, and one reader: may the reader ever say FENCED of a boot that runs? Between any two steps of an agent it can be
// killed, its link can come back, its write can hang, and its successor can start, with or without sight of what the kernel
// counts down. A driver is late by a tick at each countdown, and may refuse the short timeout.
//
// [Group] is three to five nodes with a network that is any graph, and a slot each: whom does a group lose that condemns
// itself? Time passes in ticks, in which each node asks its peers, reads all slots, decides and writes, one after the other. A
// write hangs and lands later. A half of four is granted when all of it count it and the holders before are done.
//
// A third one, [Loss], is a group whose nodes need network and LUN (lun.mode: and, rule E3): whom does it lose when paths to
// the LUN fail, or the LUN does? Some nodes notice later than others.
//
// # What is checked
//
// Of a boot: nobody says FENCED of it while it runs, nothing of it feeds, arms or disarms the watchdog once it was told, and
// no boot that was not condemned is proven dead. Of a group: a node that condemns itself leaves a majority, or a granted half, that
// lives or did two ticks ago.
//
// # What is not
//
// Lists of members that change, samples, a Lease, clocks of different speed, several devices.
package sentence
