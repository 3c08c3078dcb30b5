// Package diskquorum arbitrates equal splits on a shared LUN. The LUN has a table of slots, one per node. In its slot
// each node publishes its heartbeat, its view and its part of a numbered log of decisions. The nodes agree on the log
// by Disk Paxos (Gafni & Lamport, 2002).
//
// # What it decides
//
// It decides which half may go on in an equal split. A decision of the log is a [Grant], which names tokens (kernel
// boot and tie counter) of exactly one half. A node feeds under a grant only while the latest decision names its
// present token, its view is exactly the granted half, and its own slot writes keep landing.
//
// # State and invariants
//
// The rule numbers B1-B11 and L1-L14 in the comments are those of docs/lease.md.
//
//	I1  a slot's blocks have one writer for life; no block is ever written by two nodes
//	I2  one value per instance of the log, whatever the delays (B1-B6)
//	I3  a decision follows another only after every holder of the former is gone,
//	    renounced or expired (L5), so nobody feeds under the former for longer than G
//	I4  a token that has moved on never comes back (L1)
//	I5  what cannot be read is unknown: never empty, never unchanged, never gone (B9)
//
// # Concurrency and blocking
//
// Everything here is pure: no I/O, no clock, no locks. One goroutine owns an [Arbiter];
// it hands out at most one [Op] at a time for each device and gets its [Completion]. The adapter that performs them
// is diskquorum/rawdev.
//
// A LUN is one device or three, of which two are enough (B8). Only lanes.go handles single devices: the rest of the
// arbiter uses transfers, which are complete when a majority of the devices has completed them.
//
// Testing helpers are in diskquorum/diskquorumtest.
package diskquorum
