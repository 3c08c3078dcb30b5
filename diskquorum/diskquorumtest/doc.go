// Package diskquorumtest simulates a LUN for tests: a [LUN] is an image in memory, a [MemDevice] is one node's access
// to it with the faults that real storage has. Run a rawdev.Engine on a MemDevice to carry out the operations of the
// arbiter; both work in testing/synctest bubbles, where delays take virtual time.
//
// # Faults
//
// With most faults, a MemDevice keeps the promises on which the protocol relies: a sector of 512 bytes is written as a
// whole, a write that was reported as done is seen by every read that starts later, and an operation that has ended has
// no further effect. Only LostWrite, StaleRead and LateWrite break these promises; a protocol must then stay safe, but
// need not make progress.
//
// Each client has a seeded random generator, so a client that does the same operations
// gets the same faults.
//
// # Concurrency
//
// All methods may be called from any goroutine. Use one bubble per LUN: a hang waits on a channel that must belong to
// the bubble of the operation that it holds. A test must release its hangs before it ends.
//
// [DeviceCases] is the contract of diskquorum.Device, run on MemDevice and rawdev.Device alike. [DirectDir] and
// [LoopDevice] find real storage, or skip the test with the reason.
package diskquorumtest
