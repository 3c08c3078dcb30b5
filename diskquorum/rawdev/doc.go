// Package rawdev does the I/O on a LUN: a [Device] reads and writes whole blocks, bypassing the page cache, and an
// [Engine] runs one operation at a time for the arbiter.
//
// # State and invariants
//
// A Device is one open file description with O_DIRECT and, for writing, O_DSYNC. Data goes through the Device's aligned
// buffers, so callers need none. A buffer is used again only after the kernel has returned from the call that used it.
//
// [Device.LockSlot] locks the bytes of a slot with an open-file-description lock. The
// kernel drops it with the last reference to the description, and an I/O that hangs in
// the kernel is such a reference: an agent that gets the lock knows that no write of its
// predecessor on this host can still land. The lock belongs to the inode of the device
// node, so all agents of a host must open the same node (a hostPath mount of /dev does
// that, a second mknod of the same number does not).
//
// The Engine has at most one operation in flight. It never cancels, repeats or drops
// one: an operation that takes too long is unknown until it ends. Submit has copied the
// data, and neither buffer is touched again before the operation is complete.
//
// Open checks the paths of a block device once and keeps the problems that it finds ([Device.Advice]). This reads sysfs
// and the device mapper's table, never the device.
//
// # Concurrency and blocking
//
// Device methods may be called from any goroutine; a call takes as long as the kernel
// takes, possibly for ever, and Close does not interrupt it. Engine.Submit
// never blocks. Completions are delivered on the Engine's goroutine; the
// callback must not block and must not call Close.
//
// Durability: WriteAt returns after the device has reported the data durable. An error proves nothing: the data may be
// there, may land later, or never.
//
// # Errors
//
// Errors of Open tell what to do. Callers may test for ErrBusy, ErrClosed and ErrSlotLocked.
//
// Tests use diskquorumtest.MemDevice below an Engine, also in synctest bubbles.
package rawdev
