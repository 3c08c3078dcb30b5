// Package kdump judges the messages of crash kernels. fence_kdump_send runs in the crash kernel of a machine that has
// panicked. It sends a message of eight bytes every ten seconds while the dump is written. The message names no node:
// the caller of [Book.Hear] looks up the node by the source address.
//
// Invariants, with the guards that keep them ([Book.Judge]):
//
//   - A crash kernel proves the end of a boot that the Node showed before the last message came. Two messages are needed,
//     five seconds apart, and the Node has to be read between them: a boot that began after the first message is not meant.
//   - While the Node is Ready, nothing is proven and no message is kept.
//   - If the boot or the heartbeat of the Node changes in between, its kubelet runs: the proof begins again.
//
// Anyone who can send packets with the address of a node can forge these messages. But a forged message only matters
// for a node that is not Ready: the recovery also waits until its Lease has run out.
//
// All functions are pure; a Book is used by one goroutine at a time.
package kdump
