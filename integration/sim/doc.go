// Package sim runs whole groups of decision cores against each other on virtual time, each group in one goroutine. The
// simulated networks can be cut one way. The simulated LUN has I/O that is late, lost, torn or hung. A Lease
// whose API server answers late or never can replace it. The watchdogs really stop a node. A seed and a commit
// replay a run exactly. Random schedules run in parallel on all processors.
//
// The real parts are netgossip.Merger, probing.Schedule, diskquorum.Arbiter, leasequorum.Arbiter and watchdog.Core;
// everything around them is simulated. Nodes may differ in all times that enter the budget ([Config.Odd]).
//
// # Evidence
//
// Each node has a probing.Schedule for each network, in every run, with the millisecond granularity of netgossip/swim.
// All evidence that a node has of its peers comes from probes: this schedule asked for them, the network here carried
// them, and a peer answered. gossip.go does what swim does between schedule and merger, without the bytes. memberlist
// is reduced to its possible reports (members.go), and may be wrong.
//
// In groups of up to eight nodes, each peer is probed. From nine on nodes take samples and make sweeps
// (docs/measurements/tuning.md), and a run costs several times as much: [RandomSampledSchedule] plays groups of 9 to
// 13, a tenth as many as of the small ones. The mechanisms for more than a hundred peers (networks that take turns, sweeps by a part of the peers) are left
// to netgossip/probing and integration/gossipsim.
//
// The oracle (evidence.go) asks the network and not the schedule: which probes were answered and when they were sent,
// which nodes could last be heard and when, and for how long two nodes have had a working path.
//
// # Fault model
//
// The safety checks ([Cluster.Violations]) hold under every fault that the simulator can cause. The checks of survival
// hold only where their comments say so.
//
// Two copies of a slot set this limit: while a failed write to one copy of a slot may still land, no write to the other one
// is torn or lands late.
package sim
