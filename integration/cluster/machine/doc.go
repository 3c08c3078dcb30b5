// Package machine makes the nodes of a real cluster on one machine, of one [Kind] or the other.
//
//	Spec --> Kind.Boot --> Machine --(control)--> guest: containerd, kubelet
//
// A [Spec] is all that a node gets; package guest reads it inside the node, as JSON. A [Machine] is one boot. The
// harness does what happens to a node from outside, power and cables; for what happens inside it asks the guest with
// [Machine.Do]. Both kinds need root. Methods may be called from any goroutine. Each node has one goroutine
// that waits for its end, on the thread that started it, as the parent-death signal goes with the thread, and one that
// reads what the guest says; both end with it.
//
// # Namespaces
//
// A node of [Namespaces] has processes, mounts, network, host name, IPC and control groups of its own on the kernel of the
// host. It boots in a second and costs little. It has no watchdog that resets it, and no page cache of its own.
// Its CLOCK_BOOTTIME begins with its boot; the wall clock is the host's. Power is lost by SIGKILL of process 1: the
// kernel ends all that is in its process namespace. The boot id is a random one for each boot.
//
// # User-mode Linux
//
// A node of [UML] has a kernel of its own, with its own boot id, clock, page cache, control groups, and a softdog that
// really resets it. Without KVM it computes at the host's speed; system calls and new processes are slower
// (docs/measurements/cluster.md). Its root is the host's, by hostfs, and read-only. What survives a boot is on its
// disk, a file that is created at its first boot. The guest talks by a serial line.
//
// Power is lost by SIGKILL of process 1 of the process namespace that the kernel runs in: the processes of the host
// that are those of the node end with it. A reset is a panic, in which the kernel ends itself: the driver's own
// restart does not work in User-mode Linux.
package machine
