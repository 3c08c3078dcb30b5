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
//   - The machine's own network namespace is never changed: all namespaces are
//     anonymous, exist only as file descriptors and threads of this process, and
//     are gone when the process is, even after SIGKILL.
//   - A node's processes are forked by a thread that lives as long as the node, with
//     SIGKILL as parent-death signal: no process outlives the lab.
//   - Partitions are a set of (in-port, out-port) pairs in one table of the hub,
//     replaced in one nftables transaction: a cut of any shape over any number of
//     nodes and networks takes effect between two packets. Packets vanish without
//     a trace, ARP included, as in a broken switch; only one-way cuts let ARP pass. Rules inside the nodes would
//     not do the same: a drop in the output hook makes sendto fail with EPERM, which tells
//     the sender what a partition never tells, and N tables change at N moments.
//   - No program is called: netlink, nftables and namespaces are used directly.
//
// # Where it runs
//
// [Probe] tries it out. As root it works at once. An ordinary user gets the same through [Reexec], by which unshare(1)
// runs the command again as root of a new user namespace; only [LoopDevices] need the real root. If neither is allowed,
// the reason is printed and tests skip.
//
// # Agents
//
// [Agents] are one fencing-agent process per node in a [Lab]: real sockets, real partitions, the unmodified binary. A
// [Stage] is what the scenes of integration/laboratory run on.
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
// Wrong names are errors that list the right ones. An error midway in New leaves nothing behind.
package lab
