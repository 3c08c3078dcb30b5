// Package lunadmin is what `fencectl lun` does: it formats a LUN, shows what is on it,
// measures it, gives the slots of removed nodes back and restores a lost superblock. Agents do
// not use it.
//
// # State and invariants
//
// [Init] destroys data if it gets the wrong device, so it decides before it writes: nothing is written until every
// check has passed, and the checks run while the device is opened exclusively and locked against agents and a second
// Init on this host. Other hosts cannot be locked out; Init watches whether anybody writes, and readers refuse a
// LUN whose two superblocks differ. A device that is mounted, held by the kernel or alive is always refused;
// [InitOptions].Force only overrides signatures.
//
// [Inspect] only reads. [Check] writes the scratch block and nothing else. Both are safe on a LUN that a cluster uses.
//
// [Mend] writes one copy of the superblock, which no agent does.
//
// [Release] writes a slot, whose only writer is its owner. So Release first watches
// the LUN for as long as an owner could live on without writing, and refuses if the owner writes.
// A slot that does not change proves nothing about a node without a path to the LUN: Release also requires other nodes
// to say that they do not hear the owner. The slot that Release writes is a free one that carries the latest decision
// known (lease.md B1), a sequence beyond whatever its former owner may have under way (B3), and no token that a grant
// could ever name.
//
// # Concurrency and blocking
//
// Each call runs on its caller's goroutine and keeps no state. I/O that hangs in the
// kernel cannot be interrupted: when the context ends the call returns, and leaves the
// goroutine of its last I/O behind. This suits a command, which then exits.
//
// # Errors
//
// A [RefusedError] says why a device was not formatted. All errors say what to do.
package lunadmin
