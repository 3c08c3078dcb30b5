// Package lunhold is a model of a group that has lost all its networks and still has its LUN. It contains the rules
// E1 to E5, H1 to H6 and M1 to M5 of docs/adr/0020 and docs/lease.md. By these rules, nodes that cannot have quorum
// hold together, and no node reports FENCED for a node that runs. Each rule can be left out (Rules). A search of all
// states within bounds, the nearest first, then finds what goes wrong, with the shortest history that leads there.
// Random walks go beyond the bounds.
//
// It is a model of rules and not a test of the agent: the two share no code. Only tests use it. It has no goroutines
// and blocks on nothing.
//
// # What is modelled
//
// Three to five nodes use one LUN. Time passes in ticks. In a tick each running node asks its peers, reads the table,
// decides, and writes its slot, one node after the other in an order that the search is given. A node knows what it
// was told, with an age: answers, pings and echoes, and its last majority. Two nodes count each other only in both
// directions. The links are any graph, for example a star, or a link on which only one of two nodes gets answers. The
// path of a node to the LUN comes and goes. A write hangs and lands at any later time, or is lost, or lands in part.
// It can also land after its owner was reset, which models a slot with a new owner. A write can land and not be
// acknowledged. Reads can be slow, so that the log is old and the slots are new. An agent can be stopped while the
// watchdog counts down. A node can lose power, boot, or have its agent restarted, with new pings. Some nodes run an
// older version.
//
// The list of members changes by the rules of docs/adr/0009, except for founding and for lists without numbers: a
// list is stored at any time, and a node learns it in the step in which it hears of it. Each of several devices has a
// separate copy of a record. A node with onFence: reboot strikes itself (H6). With Network the LUN is one more
// network, and no node holds (N).
//
// A half of four nodes is granted when all its nodes count it and have the LUN. It lives until a member renounces,
// which the member does when its view changes. Another half is granted when all holders are done.
//
// The ages are few: D_max and A are two ticks, G is three, D_lun is four, and a node that is not fed runs for two or
// three more. Of all sets S that H1 allows, a node takes the one that lets it hold the longest, and a hold lasts
// until its deadline even if S is gone. In both respects the model does more than an agent would do.
//
// # What is checked
//
//   - P1: no node runs for which a living node could report FENCED, by the claims of a majority or of a whole granted
//     half.
//   - P2: if a node has lived for longer than D_lun + D_max and a tick, and G under a grant, no node outside of its
//     set feeds.
//   - P3: an outage of all networks resets no node.
//   - P4: from any state, a part that comes together lives, whichever nodes hold.
//   - P5: a claim covers only time in which its node lived.
//   - P6: when a node strikes itself, another node lives or did so within D_max. An outage that reaches all nodes
//     within D_max makes no node strike.
//
// # What is not modelled
//
// The model has no grant while the list changes, no majority of devices, which a grant needs, no tie-breakers of the
// API, no evidence by samples or from two networks, and no I/O that takes part of a tick. It leaves out the relay of
// a write (L7) and the partner of L14, so a half dies here that would live in reality. It has no ballots: an instance
// has one value. It has no clocks that differ in speed, for which the margin exists.
package lunhold
