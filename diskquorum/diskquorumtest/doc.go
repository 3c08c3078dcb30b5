// Package diskquorumtest stands in for a LUN in tests and simulations: a [LUN] is an image
// in memory, a [MemDevice] is one node's access to it with the faults that real storage
// has. Run a rawdev.Engine on a MemDevice to get the operations of the arbiter; both work
// in testing/synctest bubbles, where delays take virtual time.
//
// # Faults
//
// Whatever the faults, a MemDevice keeps what the protocol relies on: a sector of 512 bytes
// is written as a whole, a write that was reported as done is seen by every read that
// starts later, and an operation that has ended touches nothing any more, unless a fault
// that says otherwise is on: LostWrite, StaleRead and LateWrite break these promises, and a
// protocol must then stay safe, but need not make progress.
//
// Each client has a seeded random generator, so a client that does the same operations
// gets the same faults.
//
// # Concurrency
//
// All methods may be called from any goroutine. Use one bubble per LUN: a hang waits on a
// channel that must belong to the bubble of the operation it holds. A test releases what
// it hangs before it ends.
//
// [DeviceCases] is the contract of diskquorum.Device, run on MemDevice and rawdev.Device alike.
// [DirectDir] and [LoopDevice] find real storage, or skip the test and say why.
package diskquorumtest
