// Package leasequorumtest stands in for the Lease behind an API server.
//
//   - [Lease] is a register with compare-and-swap in memory, without a network: anyone who uses it decides what is late,
//     lost or refused on the way.
//   - [Contract] is what the tie-break rests on. The double and the real API server are held to it.
//
// A Lease does nothing by itself and has no lock: it belongs to one goroutine, or to who holds the lock of the
// simulation.
package leasequorumtest
