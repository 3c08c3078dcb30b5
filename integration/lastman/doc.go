// Package lastman is a model of `quorum.lastManStanding`, which the agent refuses: nodes, a
// network, the log of decisions on the LUN, and the rules of docs/adr/0015 by which a half that
// was granted an equal split would become the whole group. Each rule can be left out. A search
// of all states within bounds, and random walks beyond them, say what then goes wrong.
//
// It is a model of rules, not a test of the agent: it shares no code with it.
//
// # What is modelled
//
// A state has the links, and of each node: whether it runs, has a path to the LUN and has
// claimed its slot; its token, what it has read of the log, its bond; its slot; a write of its
// slot and a value of its own that may land at any later time, also when it was reset since.
//
// An instance of the log has one value (B1 to B6 of docs/lease.md are taken for granted): of the
// values that are under way for the next instance, any one may land, at any time or never. That
// is more than Disk Paxos permits, so what holds here holds there.
//
// # Time
//
// There are no clocks. Views follow the links at once, since evidence ends after D_max. A node
// lives by a grant if it could renew it: if it reads the latest decision, that decision names its
// present token, and the view and tokens of the others are those of the grant. What a node feeds on
// for G or D_max after its right has gone is not a state here: the time budget contains it. A
// holder counts as expired when it cannot write; then its token has moved on.
//
// # What is checked
//
// In no state may two nodes live whose views have no node in common ([State.Torn]). A majority that could
// claim the death of a node (L9) is one that lives without it: so this is the proof of death as well.
package lastman
