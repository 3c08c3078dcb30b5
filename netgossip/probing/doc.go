// Package probing decides which peer of a network is asked, and when, and what the answers and the
// silence of all of them together allow to conclude. It is pure: instants, arrivals and chance are
// arguments, a peer is an index, and what a probe is and how it gets to the peer is its owner's
// matter, [github.com/fencing-agent/fencing-agent/netgossip/swim] in the agent.
//
// There are three ways to probe (docs/measurements/tuning.md, docs/adr/0012-samples-and-sweeps.md):
//
//   - schedule.go: few peers, and peers that each matter, are all asked, one interval after their answer, and sooner
//     while there is none.
//   - sample.go: of many peers only random samples are asked, and the schedule vouches for all of them.
//   - sweep.go: all of them are asked, at once, when the samples give cause to doubt the others.
//
// Besides, there are looks (look.go): package doubt has one peer asked, on all networks.
//
// The owner calls [Schedule.Tick], then sends what [Schedule.Next] returns and says so with
// [Schedule.Probed], until Next returns a time to wait. Replies go to [Schedule.Replied] and
// [Schedule.Answered]. The results are fetched with [Schedule.TakeMisses], [Schedule.TakeDoubt] and
// [Schedule.Vouched].
//
// # State and invariants
//
//   - A vouch is dated by the start of samples that were all answered. A peer that a vouch no longer covers is reported
//     as a [Miss], and before the first vouch everybody has been asked.
//   - The rates are bounded: samples by netgossip.Demand, sweeps by Params.RoundTime, repeated probes by 200 a second,
//     those of lost peers by 20 a second, and questions because of news by one probe of a peer in 50 ms. Peers whose
//     statements are wanted ([Schedule.Ask]) are asked at the rate of a sweep.
//   - A probe on another network puts off the probe here for a bounded time, and makes nothing believed.
//
// # Concurrency, blocking, errors
//
// A [Schedule] and its peers belong to one goroutine. Nothing blocks and nothing fails.
package probing
