// Package namespaces makes nodes of namespaces: processes, mounts, network, host name, IPC and
// control groups of their own on the kernel of the host. A node boots in a second and costs
// little. What it has not is a watchdog that resets it, and a page cache of its own. Its
// CLOCK_BOOTTIME begins with its boot; the wall clock is the host's.
//
//	[Kind.Boot] --clone--> process 1 (package guest) --> containerd, kubelet --> pods
//	                          ^ descriptor 3: requests and answers
//
// Power is lost by SIGKILL of process 1: the kernel ends all that is in its process namespace.
// The boot id is a random one for each boot. Needs root.
//
// A machine's methods may be called from any goroutine. Each node has one goroutine that waits
// for its end, on the thread that started it: the parent-death signal goes with the thread.
package namespaces
