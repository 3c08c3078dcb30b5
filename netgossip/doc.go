// Package netgossip decides which members are reachable: it merges the reports of the SWIM instances of all
// SystemNetworks into one view of the roster, and computes until when that view is valid.
//
// # State and invariants
//
// Package roster defines which members are expected. A [Merger] keeps, per network and peer, whether memberlist calls
// the peer alive and the anchor of the latest two-way evidence: the start of the latest probe of this node that the
// peer answered.
//
//   - Evidence is dated by the probe's start, never by the answer's arrival, so the
//     age of a view is never understated.
//   - A peer is seen while its evidence is younger than MaxAge (D_max) on as many
//     networks as the [Policy] asks for and no network's memberlist calls it dead there.
//   - A peer is counted while it is seen, its own statement of the same age states
//     that it sees us, and it has the same roster. Merely being seen is not enough:
//     one-way links would otherwise give two halves a common member.
//
// # Concurrency
//
// The package is pure: no I/O, no clock, no locks. One goroutine owns a Merger.
// The adapters are netgossip/swim (memberlist) and netgossip/iface (netlink).
package netgossip
