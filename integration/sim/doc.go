// Package sim runs whole groups of decision cores against each other on virtual time, in
// one goroutine: simulated networks that can be cut one way, a simulated LUN whose I/O is
// late, lost, torn or hung, or a Lease whose API server answers late or never, and watchdogs that really stop a node. A seed and a commit
// replay a run exactly.
//
// What runs is the real netgossip.Merger, diskquorum.Arbiter, leasequorum.Arbiter and watchdog.Core; what is
// simulated is everything around them. The gossip adapter is reduced to its contract: a
// probe that is answered carries the peer's statement. Nodes may differ in all times that
// enter the budget ([Config.Odd]).
//
// # Fault model
//
// The safety checks ([Cluster.Violations]) hold under every fault the simulator can make.
// The checks of survival hold only where their comments say.
//
// The limit is that of two copies: while a failed write to one copy of a slot may still land,
// no write to the other one is torn or lands late.
package sim
