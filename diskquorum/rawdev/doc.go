// Package rawdev does the I/O on a LUN: a [Device] reads and writes whole blocks past the
// page cache, an [Engine] runs one operation at a time for the arbiter.
//
// # State and invariants
//
// A Device is one open file description with O_DIRECT and, for writing, O_DSYNC. Data
// goes through aligned buffers of its own, so callers need none; a buffer is handed out
// again only after the kernel has returned from the call that used it.
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
// Open looks at the paths of a block device once and keeps what is wrong with them
// ([Device.Advice]); that reads sysfs and the device mapper's table, never the device.
//
// # Concurrency and blocking
//
// Device methods may be called from any goroutine; a call takes as long as the kernel
// takes, possibly for ever, and Close does not interrupt it. Engine.Submit
// never blocks. Completions are delivered on the Engine's goroutine; the
// callback must not block and must not call Close.
//
// Durability: WriteAt returns after the device has reported the data durable. An error
// says nothing: the data may be there, may land later, or never.
//
// # Errors
//
// Open says what to do. ErrBusy, ErrClosed and ErrSlotLocked are for callers to branch on.
//
// Tests use diskquorumtest.MemDevice below an Engine, in synctest bubbles too.
package rawdev
