// Package gossipsim runs the gossip of whole groups, 2 to 1000 nodes on one or more system
// networks, on virtual time and measures it: how long nodes take to see a fault, how often
// they are wrong, what they send.
//
// What runs is real: memberlist, and by the method [Evidence] this project's swim.Instance,
// netgossip.Merger and the agent's way of renewing its statement. By the method [Counting]
// it is memberlist alone, whose members are counted: what a plain build of the idea does.
// Simulated are the networks between the nodes and the faults, nothing else: no LUN, no
// watchdog and no decision.
//
// # State and invariants
//
// A [Config] is all of a simulation; its schedule of faults follows from it and replays
// exactly ([Config.Schedule]). The rest does not: which packet gets lost, and in which order
// the timers of one instant fire, is chance that Go and memberlist offer no seed for. So
// compare distributions, not runs.
//
//   - The networks are those of netgossiptest, under conditions that are arrays by node: a
//     partition of 1000 nodes would be half a million links there.
//   - A simulation starts with everybody in touch with everybody, without the join storm
//     that would cost more than what is to be measured (boot.go).
//   - A detection is dated by the instant from which a node sees what it should until the
//     end. What a node sees only for a while does not count, what it never sees is Missing.
//   - A LEFT is false unless a fault touches, or touched up to 10 s ago, enough networks
//     between the two nodes. Lost packets and slow nodes excuse nothing; what is reported
//     of or by a slow node is counted apart.
//   - Streams are pipes: their bytes are counted with an estimate of headers, lost segments
//     hold a write up, and a cut breaks them at once instead of by their deadlines.
//
// # Concurrency and blocking
//
// [Run] must be called inside a bubble of testing/synctest and returns when all goroutines
// that it started have ended. Programs use [RunProcess] and [RunAll], from any goroutine:
// they start a process for each simulation, which must call [ChildMain] first of all.
//
// # Errors
//
// A bad Config is refused with all problems at once. An error of [Run] means that the
// simulator or memberlist does not work as expected, never that nodes were wrong.
package gossipsim
