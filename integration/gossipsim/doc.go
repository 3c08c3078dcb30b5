// Package gossipsim runs the gossip of whole groups, 2 to 1000 nodes on one or more system networks, on virtual time.
// It measures how long nodes take to see a fault, how often they are wrong, and what they send.
//
// The real parts are memberlist and, with the method [Evidence], this project's swim.Instance, netgossip.Merger and
// the agent's way of renewing its statement. With the method [Counting] only memberlist runs, and its members are
// counted, as a simple implementation would do it. Only the networks between the nodes and the faults are simulated:
// there is no LUN, no watchdog and no decision.
//
// # State and invariants
//
// A [Config] describes a simulation completely; its schedule of faults follows from it and replays exactly
// ([Config.Schedule]). The rest does not replay: it is random which packet gets lost, and in which order the timers
// of one instant fire, and Go and memberlist offer no seed for it. Compare distributions, therefore, and not runs.
//
//   - The networks are those of netgossiptest, with conditions in arrays by node. Links between pairs would be half a
//     million entries for a partition of 1000 nodes.
//   - A simulation starts with all nodes in contact with all others, without the storm of joins, which would cost
//     more than what is measured (boot.go).
//   - A detection is dated by the instant since which a node has seen what it should. What a node sees only for a
//     while does not count; what it never sees is Missing.
//   - A LEFT is false unless a fault affects, or has affected within the last 10 s, enough networks between the two
//     nodes. Lost packets and slow nodes are no excuse. LEFTs of or by a slow node are counted separately.
//   - Streams are pipes. Their bytes are counted with an estimate of headers, and lost segments delay a write. A cut
//     breaks streams at once, and not when their deadlines pass.
//
// # Concurrency and blocking
//
// [Run] must be called inside a bubble of testing/synctest and returns when all goroutines that it started have
// ended. Programs use [RunProcess] and [RunAll], from any goroutine: they start a process for each simulation, which
// must call [ChildMain] before anything else.
//
// # Errors
//
// A bad Config is refused with all its problems at once. An error of [Run] means that the simulator or memberlist
// does not work as expected, and never that nodes were wrong.
package gossipsim
