// Package netgossiptest stands in for the network below memberlist.
//
//   - [Network] is a SystemNetwork in memory, made for testing/synctest bubbles: packets
//     through bounded queues, streams through pipes, and per directed link a cut, a loss
//     and a delay from a seeded source; or other [Conditions], such as the machines and
//     faults of integration/gossipsim.
//   - [Dropper] sits above real sockets on 127.0.0.0/8 and drops what goes to or comes
//     from chosen peers, for whole processes on a machine without network namespaces.
//   - [TransportCases] is the contract that both, and the real transport, are tested by.
//
// # State and invariants
//
// WriteTo never blocks: a packet that finds its receiver's queue full is lost, as in a
// kernel. A cut also breaks the streams that cross it; a real one would leave them to
// their deadlines, which only takes longer. After Shutdown of a transport nothing of it
// remains: no goroutine, no open stream, and its address can be listened on again.
//
// # Concurrency
//
// Everything may be called from any goroutine and at any time, cuts in particular. In a
// bubble the Network must be made inside it. Dialing over a cut link blocks until the
// dial's timeout, like a lost SYN; nothing else blocks.
package netgossiptest
