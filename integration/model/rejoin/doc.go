// Package rejoin is a model of a heal that reaches the members of a granted half one after the other. It contains
// nodes, a network, the log of decisions on the LUN, and the rules L1, L5 to L10 and L14 of docs/lease.md, by which a
// holder continues under its grant beside a partner that counts a majority again. Parts of L14 can be left out. A
// search of all states within bounds, and random walks beyond them, then find what goes wrong.
//
// It is a model of rules and not a test of the agent: the two share no code.
//
// # What is modelled
//
// Time passes in rounds. In a round each node, in any order, asks its peers, counts those that answered and say that
// they see it, writes its slot, reads the log, and decides. A node knows a peer by the statement in an answer, which
// ages. Answers of a round may be lost for one node and not for its peers, so that views need not be mutual, and one
// answer may come late. Paths to the LUN come and go. A write may hang and land at any later time, even after its
// owner was reset.
//
// An instance of the log has one value (B1 to B6 are taken for granted). A grant passes the read of phase 1, and
// lands at any later time, or never.
//
// The ages are few: D_max, A, G and F + W + R + margin, the time for which a node runs without permission, are two
// rounds each. A node whose permission has ended is reset when it was not fed for that long.
//
// # What is checked
//
// In no state have two nodes been feeding, without a node that both count, for longer than max(D_max + A, G) and a
// round. And no running node could be called FENCED (L9): while it runs, the nodes that have not seen it for the time
// of a claim are no majority, and not the whole of a half that has been granted for as long. It does not matter
// whether these nodes live, so this check is stricter than the agent.
package rejoin
