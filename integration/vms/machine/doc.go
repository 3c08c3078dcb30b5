// Package machine runs one virtual machine of the lab under QEMU's processor emulation, and records what happens to
// it.
//
// # State and invariants
//
// A [Machine] is one QEMU process with three connections to it: QMP, on which the hypervisor reports events, above
// all RESET; the virtio port to the guest program (package control); and the console. All that arrives is an [Event],
// dated by this process's clock, or for QMP by the hypervisor's on the same clock, and written to a log. Events are
// never taken out of the list. A machine that is reset boots again in place.
//
// # Concurrency and blocking
//
// All methods may be called from any goroutine. Three goroutines per machine read its lines; Close kills the process,
// which needs no grace because nothing in it is worth keeping, and waits for them. The process also dies with this one.
// Run and Get wait for the guest until the context ends or the guest is reset.
//
// # Errors
//
// A QEMU that ends by itself is an error with the last words of its stderr.
package machine
