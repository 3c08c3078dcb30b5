// Package machine makes the nodes of a real cluster on one machine, of one [Kind] or the other.
//
//	Spec --> Kind.Boot --> Machine --(control)--> guest: containerd, kubelet
//
// A [Spec] is all that a node gets; package guest reads it inside the node, as JSON. A [Machine] is one boot. The
// harness itself does what happens to a node from outside (power and cables). For what happens inside it asks the
// guest with [Machine.Do]. Both kinds need root. Methods may be called from any goroutine. Each node has two
// goroutines, which end with it. One waits for its end, on the thread that started it, because the parent-death
// signal depends on that thread. The other one reads the guest's messages.
//
// # Namespaces
//
// A node of [Namespaces] has separate processes, mounts, network, host name, IPC and control groups on the kernel of
// the host. It boots in a second and costs little. It has no watchdog that resets it, and no separate page cache. Its
// CLOCK_BOOTTIME begins with its boot; the wall clock is the host's. SIGKILL of process 1 stands for a loss of power:
// the kernel ends everything in its process namespace. The boot id is random for each boot.
//
// # User-mode Linux
//
// A node of [UML] has its own kernel, with its own boot id, clock, page cache, control groups, and a softdog that
// really resets it. It needs no KVM and computes at the host's speed; system calls and new processes are slower
// (docs/measurements/cluster.md). Its root is the host's, by hostfs, and read-only. What survives a boot is on its
// disk, a file that is created at its first boot. The guest uses a serial line.
//
// SIGKILL of process 1 of the process namespace in which the kernel runs stands for a loss of power: the processes of
// the host that belong to the node end with it. A reset is a panic, in which the kernel ends itself: the driver's own
// restart does not work in User-mode Linux.
package machine
