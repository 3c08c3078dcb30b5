// Package netgossiptest replaces the network below memberlist in tests.
//
//   - [Network] is a SystemNetwork in memory, in a testing/synctest bubble or in real time: packets
//     through bounded queues, streams through pipes, and per directed link a cut, a loss
//     and a delay from a seeded source; or other [Conditions], such as the machines and
//     faults of integration/gossipsim.
//   - [TransportCases] is the contract against which Network and the real transport are tested.
//
// # State and invariants
//
// WriteTo never blocks: a packet that finds its receiver's queue full is lost, as in a kernel. A cut also breaks the
// streams that cross it; a real cut would leave them until their deadlines, which only takes longer. After Shutdown of
// a transport nothing of it remains: no goroutine, no open stream, and its address can be listened on again.
//
// # Concurrency
//
// Everything may be called from any goroutine and at any time, cuts in particular. If it is used in a bubble, the
// Network must be created inside it. Dialing over a cut link blocks until the dial's timeout, like a lost SYN; nothing
// else blocks.
package netgossiptest
