// Package fabric contains the switches between the virtual machines of the lab: one for each network, in this process,
// so that cuts, one-way cuts and loss need no privilege and take effect between two packets.
//
// # State and invariants
//
// A [Port] is one card of one machine: a datagram socket to which QEMU sends frames and from which it takes them. Frames are
// forwarded by the destination address; broadcast and multicast go to all. A cut silently drops frames,
// including ARP, and no carrier is lost, as in a broken switch. The rules of all networks are one value that is
// replaced as a whole, so that a cut of any shape happens at one moment. No packet ever reaches the host of the lab.
//
// # Concurrency and blocking
//
// Each port has one goroutine, which reads and forwards; a machine that takes no frames loses them and delays nobody.
// Set may be called from any goroutine and does not block. Close ends the goroutines and waits for them.
//
// # Errors
//
// A frame that cannot be delivered is dropped and counted.
package fabric
