// Package kdump judges what crash kernels say. fence_kdump_send runs in the crash kernel of a machine that has panicked,
// and sends a message of eight bytes every ten seconds while the dump is written. The message names no node: its
// source address says which node it is about, which the caller of [Book.Hear] has looked up.
//
// Invariants, with the guards that keep them ([Book.Judge]):
//
//   - A crash kernel proves the end of a boot that the Node showed before the last message came. Two messages are needed,
//     five seconds apart, and the Node has to be read between them: a boot that began after the first message is not meant.
//   - While the Node is Ready, nothing is proven and nothing is kept.
//   - If the boot or the heartbeat of the Node changes in between, its kubelet runs: the proof begins from the start.
//
// Anyone who can send with the address of a node can say this. But only a node that is not Ready can be lied about:
// the recovery also waits until its Lease has run out.
//
// All is pure; a Book is used by one goroutine at a time.
package kdump
