// Package lunadmin implements `fencectl lun`: it formats a LUN, shows its contents, measures it, releases the slots of
// removed nodes and restores a lost superblock. Agents do not use it.
//
// # State and invariants
//
// [Init] destroys data if it gets the wrong device, so it writes nothing until every check has passed. The checks run
// while the device is opened exclusively and locked against agents and a second Init on this host. Other hosts cannot
// be locked out: Init watches whether the device is written, and readers refuse a LUN whose two superblocks differ. A
// device that is mounted, held by the kernel or being written is always refused; [InitOptions].Force only overrides
// signatures and data.
//
// [Inspect] only reads. [Check] writes only the scratch block. Both are safe on a LUN that a cluster uses.
//
// [Mend] writes one copy of the superblock, which no agent does.
//
// [Release] writes a slot, whose only writer is otherwise its owner. So Release first watches the LUN for as long as an
// owner could run without writing, and refuses if the owner writes. A slot that does not change proves nothing about a
// node without a path to the LUN: Release also requires that other nodes state that they do not hear the owner. Release
// writes a free slot with the latest known decision (lease.md B1), a sequence greater than that of any write that its
// former owner may have under way (B3), and no token that a grant could ever name.
//
// # Concurrency and blocking
//
// Each call runs on its caller's goroutine and keeps no state. I/O that hangs in the kernel cannot be interrupted: when
// the context ends, the call returns, and leaves the goroutine of its last I/O behind. This suits a command, which then
// exits.
//
// # Errors
//
// A [RefusedError] tells why a device was not formatted. All errors tell what to do.
package lunadmin
