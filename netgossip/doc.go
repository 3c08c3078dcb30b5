// Package netgossip decides who is reachable: it merges what the SWIM instances
// of all SystemNetworks report into one view of the roster and says until when
// that view may be believed.
//
// # State and invariants
//
// Who is expected is the business of package roster. A [Merger] keeps, per network
// and peer, whether memberlist calls the peer alive and when the last two-way
// evidence was anchored: the start of a probe of ours that the peer answered.
//
//   - Evidence is dated by the probe's start, never by the answer's arrival, so the
//     age of a view is never understated.
//   - A peer is seen while its evidence is younger than MaxAge (D_max) on as many
//     networks as the [Policy] asks for and no network's memberlist calls it dead there.
//   - A peer is counted while it is seen, its own statement of the same age says
//     that it sees us, and it has the same roster. Merely being seen is not enough:
//     one-way links would otherwise give two halves a common member.
//
// # Concurrency
//
// The package is pure: no I/O, no clock, no locks. One goroutine owns a Merger.
// The adapters are netgossip/swim (memberlist) and netgossip/iface (netlink).
package netgossip
