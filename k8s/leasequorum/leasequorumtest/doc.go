// Package leasequorumtest replaces the Lease behind an API server in tests.
//
//   - [Lease] is a register with compare-and-swap in memory, without a network: its user decides what is late, lost or
//     refused on the way.
//   - [Contract] checks what the tie-break depends on. Both this double and the real API server are tested by it.
//
// A Lease starts nothing and has no lock: it belongs to one goroutine, or to the goroutine that holds the lock of the
// simulation.
package leasequorumtest
