// Package lab runs a small cluster on one machine: every node is a separate network namespace, every SystemNetwork is a
// bridge, and partitions really drop packets.
//
//	  hub namespace: bridge "br1" (mgmt), bridge "br2" (data)
//	   |p1n1 |p2n1      |p1n2 |p2n2      ...      nftables: table bridge lab
//	 mgmt  data       mgmt  data                  set cut  { in-port . out-port }
//	10.77.1.1  .2.1  10.77.1.2  .2.2
//	  node n1          node n2
//
// # State and invariants
//
//   - The host's network namespace is never changed: all namespaces are anonymous, exist only as file descriptors and
//     threads of this process, and are gone when the process is, even after SIGKILL.
//   - A node's processes are forked by a thread that lives as long as the node, with
//     SIGKILL as parent-death signal: no process outlives the lab.
//   - Partitions are a set of (in-port, out-port) pairs in one table of the hub, which one nftables transaction replaces:
//     a cut of any shape over any number of nodes and networks takes effect between two packets. Packets are silently
//     dropped, including ARP, as in a broken switch; only one-way cuts let ARP pass. Rules inside the nodes would behave
//     differently: a drop in the output hook makes sendto fail with EPERM, so that the sender notices the partition, and
//     N tables change at N moments.
//   - No program is called: netlink, nftables and namespaces are used directly.
//
// # Where it runs
//
// [Probe] tries whether a lab works here. For root it does. An ordinary user needs [Reexec], with which
// unshare(1) runs the command again as root of a new user namespace; only [LoopDevices] need the real root. If neither is allowed,
// the reason is printed and tests skip.
//
// # Agents
//
// [Agents] are one fencing-agent process per node in a [Lab]: real sockets, real partitions, the unmodified binary. The
// scenes of integration/laboratory run on a [Stage].
//
// # Concurrency and blocking
//
// All methods may be called from any goroutine. New takes some 10 ms per node. Cuts block for one netlink round trip
// (well under 10 ms). [Lab.Do] runs its function on another goroutine in the node's namespace. Goroutines that the
// function starts are NOT in that namespace, so the function itself must open sockets ([Lab.Dial] and [Lab.HTTPClient]
// do). Close stops processes (first with SIGTERM, later with SIGKILL), then releases everything in reverse order; it
// may be called twice.
//
// # Errors
//
// An error about a wrong name lists the right ones. If New fails midway, it leaves nothing behind.
package lab
