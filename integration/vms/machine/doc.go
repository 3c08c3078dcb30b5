// Package machine runs one virtual machine of the lab under QEMU's processor emulation, and records what happens to it.
//
// # State and invariants
//
// A [Machine] is one QEMU process with three connections to it: QMP, on which the hypervisor reports events, above all
// RESET; the virtio port to the guest program (package control); and the console. Everything that arrives becomes an
// [Event] and is written to a log. Events are dated by this process's clock; those of QMP are dated by the hypervisor,
// which uses the same clock. Events are never removed from the list. A machine that is reset boots again in the same
// process.
//
// # Concurrency and blocking
//
// All methods may be called from any goroutine. Three goroutines per machine read its connections. Close kills the
// process and waits for these goroutines; a kill is enough, because nothing in the machine is worth keeping. The
// process also dies with this one. Run and Get wait for the guest until the context ends or the guest is reset.
//
// # Errors
//
// If QEMU ends by itself, the error contains the last lines of its stderr.
package machine
