// Package probing decides which peer of a network is probed, and when, and what follows from the answers and the
// silence of all peers together. It is pure: instants, arrivals and randomness are arguments, and a peer is an index.
// Its owner defines the probes and sends them; in the agent that is
// [github.com/fencing-agent/fencing-agent/netgossip/swim].
//
// There are three ways to probe (docs/measurements/tuning.md, docs/adr/0012-samples-and-sweeps.md):
//
//   - schedule.go: if there are few peers, or each peer matters, each is probed one interval after its answer, and
//     sooner while it does not answer.
//   - sample.go: if there are many peers, only random samples are probed, and the schedule vouches for all peers.
//   - sweep.go: all peers are probed at once when the samples give a reason to doubt the others.
//
// There are also looks (look.go): package doubt requests a probe of one peer, on all networks.
//
// The owner calls [Schedule.Tick]. It then sends each probe that [Schedule.Next] returns and confirms it with
// [Schedule.Probed], until Next returns a time to wait. Replies go to [Schedule.Replied] and [Schedule.Answered]. The
// results are fetched with [Schedule.TakeMisses], [Schedule.TakeDoubt] and [Schedule.Vouched].
//
// # State and invariants
//
//   - A vouch is dated by the start of samples that were all answered. A peer that a vouch no longer covers is reported
//     as a [Miss]. Every peer is probed before the first vouch.
//   - All rates are bounded: samples by netgossip.Demand, sweeps by Params.RoundTime, repeated probes to 200 a second,
//     probes of lost peers to 20 a second, and questions because of news to one probe of a peer in 50 ms. Peers whose
//     statements are wanted ([Schedule.Ask]) are asked at the rate of a sweep.
//   - A probe on another network delays the probe on this network for a bounded time. It is not evidence on this
//     network.
//
// # Concurrency, blocking, errors
//
// A [Schedule] and its peers belong to one goroutine. Nothing blocks and nothing fails.
package probing
