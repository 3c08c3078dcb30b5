// Package sim runs whole groups of decision cores against each other on virtual time, each group in
// one goroutine: simulated networks that can be cut one way, a simulated LUN whose I/O is
// late, lost, torn or hung, or a Lease whose API server answers late or never, and watchdogs that really stop a node. A seed and a commit
// replay a run exactly; random schedules run beside each other on all processors.
//
// What runs is the real netgossip.Merger, probing.Schedule, diskquorum.Arbiter, leasequorum.Arbiter and
// watchdog.Core; what is simulated is everything around them. Nodes may differ in all times that
// enter the budget ([Config.Odd]).
//
// # Evidence
//
// Each node has a probing.Schedule for each network, in every run and at the grain of a millisecond that
// netgossip/swim waits by: whatever a node believes of its peers, it believes because of probes that
// this schedule asked for, the network here carried, and a peer answered. gossip.go does what swim does between
// schedule and merger, without the bytes. memberlist is reduced to what it may say (members.go), and may be wrong.
//
// Up to eight nodes, each peer is probed. Samples and sweeps begin with nine (docs/measurements/tuning.md), and there
// a run costs several times as much: [RandomSampledSchedule] plays groups of 9 to 13, a tenth as many as
// of the small ones. What begins with more than a hundred peers (networks that take turns, sweeps by a part of
// the peers) is left to netgossip/probing and integration/gossipsim.
//
// The oracle (evidence.go) asks the network and not the schedule: which probes were answered and when they
// were sent, who could be heard last and when, for how long nothing has kept two nodes from talking.
//
// # Fault model
//
// The safety checks ([Cluster.Violations]) hold under every fault the simulator can make.
// The checks of survival hold only where their comments say.
//
// The limit is that of two copies: while a failed write to one copy of a slot may still land,
// no write to the other one is torn or lands late.
package sim
