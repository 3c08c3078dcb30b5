// Package lunhold is a model of a group that has lost all its networks and has its LUN: the rules E1 to E5, H1 to H6 and M1
// to M5 of docs/adr/0020 and docs/lease.md, by which nodes that cannot live hold together, and nobody says FENCED of one that runs. Each rule
// can be left out (Rules). A search of all states within bounds, the nearest first, says what then goes wrong and by which
// shortest history; random walks go beyond the bounds.
//
// It is a model of rules, not a test of the agent: it shares no code with it. Only tests use it. It has no goroutines and
// blocks on nothing.
//
// # What is modelled
//
// Three to five nodes on one LUN. Time passes in ticks. In a tick each node that runs asks its peers, reads the table, decides,
// and writes its slot, one after the other in an order that the search is given. What a node knows is what it was told,
// with an age: of answers, of pings and echoes, of its last majority. A count is two-way. The links are any graph, also a star, and
// also one in which only one of two is answered. The path of a node to the LUN comes and goes. A write hangs and lands
// whenever it likes, or is lost, or lands in part; also when its owner was reset since, which is what a slot with a new
// owner comes to. A write lands and is not acknowledged. Reads are slow, so that the log is old and the slots are new. An agent is stopped while
// the watchdog goes on. A node loses power, boots, or has its agent started again, with other pings. Some nodes run an older version.
//
// The list of members changes by the rules of docs/adr/0009, but for founding and lists without numbers: a list is stored at any
// time, and is learnt in the step in which it is heard of. Each of several devices has its own copy of a record. A node with
// onFence: reboot strikes itself (H6). With Network the LUN is one more network, and nobody holds (N).
//
// A half of four nodes is granted when all of it count it and have the LUN. It lives until a member renounces, which it
// does when its view changes. Another half is granted when all holders are done.
//
// The ages are few: D_max and A are two ticks, G three, D_lun four, and a node that nobody feeds runs on for two or three.
// Of all sets S that H1 allows, a node takes the one that lets it hold the longest, and a hold lasts to its deadline though
// S is gone. Both are more than an agent would do.
//
// # What is checked
//
// P1: nobody runs of whom a living node could say FENCED, by the claims of a majority or of all of a granted half. P2:
// no node feeds outside of the set of one that has lived for longer than D_lun + D_max and a tick, and G under a grant.
// P3: an outage of all networks resets nobody. P4: from any state, a part that comes together lives, no matter who holds.
// P5: a claim covers only time in which its node lived. P6: a node that strikes leaves somebody who lives, or did within D_max; and
// an outage that comes to all within D_max strikes nobody.
//
// # What is not
//
// A grant while the list changes, and a majority of the devices, which a grant needs. API tie-breakers. Evidence by samples or
// from two networks. An I/O that takes part of a tick. The relay of a write (L7) and the partner of L14, so a half dies
// here that lives there. Ballots: an instance has one value. Clocks that differ in speed, which is what the margin is for.
package lunhold
