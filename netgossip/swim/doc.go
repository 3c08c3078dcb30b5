// Package swim runs one memberlist on one SystemNetwork and reports to a [Sink] which members are alive there.
//
// It reports from two sources, because neither is enough. memberlist (SWIM) finds a dead peer fast and cheaply. But a
// node that has lost its network learns that from its member table only after minutes: Lifeguard slows the probing of
// exactly this node. So the instance also runs an evidence protocol: it probes its peers, and probes again while no
// reply comes. Each answered probe is a [netgossip.Answer], dated by the instant before the probe was sent. If there
// are few peers, or each matters ([Instance.SetDemand]), all peers are probed. If there are many, random samples are
// probed, and the instance vouches for all peers (docs/measurements/tuning.md). Package probing decides which peer is
// probed when; this package has the inbox, the packets, the clock and the sockets. Evidence expires by itself: a node
// needs no detector to know that it is alone.
//
// # State and invariants
//
//   - Evidence is two-way and first-hand: a reply counts only for the peer that was asked,
//     with the random id of a probe younger than EvidenceMaxAge.
//   - A statement counts only in a reply. A probe that announces a new statement makes the receiver ask for it at once,
//     so an [Instance.Nudge] reaches all peers in one and a half round trips. If samples are taken, it reaches a few
//     peers, and [Instance.Announce] reaches the others, as does [Instance.LastWords] of a node that is about to end.
//     If each of many peers is probed, they learn the news with their own probes.
//   - A vouch is dated by the start of samples that were all answered. A node that is no longer covered by it is
//     reported, and every peer is probed before the first vouch.
//   - If each of many peers is probed and one network suffices to reach them, the networks take turns
//     ([Instance.Proven]). A probe on one network delays the probe on the other for a bounded time, and is not evidence
//     there.
//   - All traffic is bounded: samples by netgossip.Demand, sweeps by Params.RoundTime, the probes of lost peers to 20 a
//     second.
//   - With a keyring, a frame that no agent would seal in this way never reaches memberlist, because it could crash it
//     (docs/adr/0016-frames-before-memberlist.md).
//   - A node without a statement does not answer: it cannot state whom it sees.
//   - Peers are the roster's members with an address on this network. Packets of other senders, and packets with
//     foreign labels or keys, are refused, counted and logged once a minute.
//   - memberlist never heals a partition that outlasted GossipToTheDeadTime. The rejoin loop joins roster members that
//     memberlist does not list: at once when one answers a probe, and otherwise every RejoinInterval, growing to 15 s.
//     It needs only the roster.
//   - An instance serves one roster and one address. When either changes, stop the instance without leaving and create
//     another; peers do not notice if that takes less time than a suspicion.
//   - A list of members that a peer uses and this node lacks is fetched in pieces of 512 bytes, one with each reply
//     (handover.go), and counts only with the digest that was announced. At most one list, of at most 256 KiB, is
//     fetched at a time, with at most 20 probes a second.
//   - With a Device, nothing is sent or received through another one, whatever the routes are: a network whose device
//     is down is silent. The sockets belong to an interface by its number. When the device is created again,
//     [Instance.Rebind] opens new sockets, and neither memberlist nor the peers notice
//     (docs/adr/0007-network-is-a-device.md).
//   - With Doubts, which all instances of a node share, a peer that is late on one network is looked at on all
//     networks, and the members exchange words about it (package doubt). A word counts only with the cookie that its
//     receiver gave to its sender, and is sent only to members that gave one. The Sink gets no words: they only affect
//     publication.
//   - Sending never waits. Packets that do not fit into the kernel's buffers are dropped and counted.
//   - Received packets are copies of exact size, since memberlist keeps the packets that it queues.
//
// # Concurrency
//
// The methods of [Instance] may be called from any goroutine. An instance has four
// goroutines (evidence, rejoin, journal, and one that follows a device it is pinned to) and
// two that read its sockets, or one that counts what a foreign [Listener] receives, all
// ended and waited for by [Instance.Stop]; memberlist has its own. [Doubts.Run] is one more for a node. The Sink is called from
// the evidence goroutine and from memberlist's, there under memberlist's node lock, one call
// at a time and never after Stop has returned. Logging is done by the journal goroutine, for
// the same reason that the Sink must not block: under that lock, a blocked stderr stops
// everything.
//
// # Blocking
//
// New binds and returns. Start, Nudge, Announce, LastWords, Renew, SetDemand, Ask, Doubt, Verify, Proven, Fetch and
// Rebind do not wait for peers. Stop with leave waits until the farewell has been sent (below a second for small
// clusters, 6 s for 1000 nodes), then for goroutines, both within its context. Joining a peer that does not respond
// blocks only the rejoin goroutine, for TCPTimeout.
//
// # Errors
//
// New reports all problems of its Config at once. If the address is in use, the error names the likely cause. If
// sockets cannot be pinned, the error is a [*PinError], which distinguishes a denial from a missing device. Packets
// that cannot be sent are only logged, once a minute: the missing answers have their own effect.
package swim
