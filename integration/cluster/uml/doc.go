// Package uml makes nodes of User-mode Linux: each has a kernel of its own, with its own boot id, clock, page cache,
// control groups, and a softdog that really resets it. Without KVM it computes at the host's speed; system calls and
// new processes are slower (docs/measurements/cluster.md).
//
//	[Kind.Boot] --> linux.uml --process 1--> guest "kernel" --> containerd, kubelet --> pods
//	   |                ^ taps: its networks    ^ a serial line: requests and answers
//	   +-- DIR/disk.img, the LUN's device
//
// The root of a node is the host's, by hostfs, and read-only. What outlives a boot is on its disk, a file that is made
// at its first boot.
//
// Power is lost by SIGKILL of process 1 of the process namespace that the kernel runs in: the processes of the host
// that are those of the node end with it. A reset is the end of the kernel by itself, that is, a panic: the driver's own
// restart does not work in User-mode Linux.
//
// A machine's methods may be called from any goroutine. Each node has one goroutine that waits for its end, on the
// thread that started it: the parent-death signal goes with the thread.
package uml
