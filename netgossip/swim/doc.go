// Package swim runs one memberlist on one SystemNetwork and reports to a [Sink] who is
// alive there.
//
// Two things are reported, because neither is enough. memberlist (SWIM) finds a dead peer
// fast and cheaply, but a node that has lost its network learns that from its member table
// only after minutes: Lifeguard slows the probing of exactly the sick node. So the instance
// also runs an evidence protocol of its own: it probes its peers, asks again while no reply
// comes, and each answered probe is a [netgossip.Answer], dated by the instant before the
// probe was sent. Few peers, and peers of which each matters ([Instance.SetDemand]), are all
// probed; of many, random samples are, for which the instance vouches (docs/measurements/tuning.md). Package probing
// decides which peer is probed when; this package has the inbox, the packets, the clock and the sockets. Evidence
// expires by itself: a node needs no detector to know that it is alone.
//
// # State and invariants
//
//   - Evidence is two-way and first-hand: a reply counts only for the peer that was asked,
//     with the random id of a probe younger than EvidenceMaxAge.
//   - A statement counts only in a reply. A probe with a statement that is news makes the receiver ask at once, so an
//     [Instance.Nudge] reaches everybody in one round trip and a half; where samples are taken it reaches a few, and
//     [Instance.Announce] the rest, as do [Instance.LastWords] of a node that is about to end. Many peers that are each
//     probed hear of the news when they ask themselves.
//   - A vouch is dated by the start of samples that were all answered. A node that ceases to be covered by it is
//     reported, and before a vouch is given everybody has been asked.
//   - Where many peers are each probed and one network suffices to reach them, the networks take turns
//     ([Instance.Proven]). A probe on one of them puts off that on the other for a bounded time and makes nothing
//     believed.
//   - What is sent is bounded: samples by netgossip.Demand, sweeps by Params.RoundTime, the
//     probes of lost peers by 20 a second.
//   - With a keyring, a frame that is sealed in another way than agents do it never gets as far as memberlist, which it
//     would crash (docs/adr/0016-frames-before-memberlist.md).
//   - A node without a statement does not answer: it cannot say whom it sees.
//   - Peers are the roster's members with an address on this network. Others are refused,
//     counted and logged once a minute; so are foreign labels and keys.
//   - memberlist never heals a partition that outlasted GossipToTheDeadTime. The rejoin loop
//     joins roster members that it does not list, at once when one answers a probe, and
//     otherwise every RejoinInterval, growing to 15 s. It needs nothing but the roster.
//   - An instance serves one roster and one address. When either changes, stop it without
//     leaving and make another; peers do not notice if that takes less than a suspicion.
//   - A list of members that a peer uses and this node lacks is fetched in pieces of 512 bytes, one with
//     each reply (handover.go), and counts only with the digest that was announced. At most one is
//     fetched at a time, of 256 KiB at most, by 20 probes a second.
//   - With a Device, nothing is sent or received by another one, whatever routes there are:
//     a network whose device is down is silent. The sockets belong to an interface by its
//     number; [Instance.Rebind] opens new ones when the device is made again, and neither
//     memberlist nor the peers notice (docs/adr/0007-network-is-a-device.md).
//   - With Doubts, which all instances of a node share, a peer that is late on one network is looked at on all, and the
//     members tell each other (package doubt). A word counts only with the cookie that its receiver gave to its sender,
//     and goes only to members that gave one. The Sink does not hear of words: they concern publication.
//   - Sending never waits. What the kernel's buffers have no room for is dropped and counted.
//   - Received packets are copies in their own size, since memberlist keeps what it queues.
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
// New binds and returns. Start, Nudge, Announce, LastWords, Renew, SetDemand, Ask, Doubt, Verify, Proven, Fetch and Rebind do not wait for anybody. Stop with leave waits
// until the farewell has been sent (below a second for small clusters, 6 s for 1000 nodes),
// then for goroutines, both within its context. Joining a peer that does not respond blocks
// the rejoin goroutine, and only that, for TCPTimeout.
//
// # Errors
//
// New reports all problems of its Config at once and says what else may have the address. If sockets cannot be
// pinned, the error is a [*PinError], which distinguishes a denial from a missing device. Packets that cannot be sent
// are logged once a minute: the missing answer shows the rest.
package swim
