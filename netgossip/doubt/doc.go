// Package doubt decides when the silence of a peer is published, before its evidence has run out: a peer that several
// members miss, each by probes of its own and on all networks, is LEFT within two seconds. It is pure: instants,
// arrivals and randomness are arguments, and a peer is an index of the roster. The owner (swim.Doubts in the agent)
// sends the probes and the messages, which are called words.
//
// The steps (docs/adr/0030-left-by-doubt.md has the reasons, docs/tuning.md the arithmetic):
//
//  1. If a probe is late on one network, this node looks at the peer: it probes the peer on all networks.
//  2. If the peer is silent on all of them, its five watchers look at it, too. The watchers are determined by the
//     peer's number, so many finders do not cause more watchers.
//  3. A watcher that also misses the peer tells the finder and the other watchers. When three members miss the peer,
//     and the window is nearly over, two of them call on all members to look.
//  4. When the peer has been silent to a member for the whole window, that member sends its firm word to all members.
//  5. A node publishes LEFT when it has three firm words of different members, its own look was not answered, and an
//     answer of another peer shows that this node itself is not the cause.
//
// # State and invariants
//
//   - Nothing here affects the verdict. A peer that is LEFT by doubt is still seen, and counted, for as long as its
//     evidence lasts.
//   - A peer that answers a probe is not in doubt: any answer voids all earlier words about it.
//   - A member vouches only for the silence that it has observed itself, from the start of its own first unanswered
//     probe.
//   - A member counts once, no matter what words it sends and how often.
//   - A node that was frozen, or hears no peer, drops its doubts, which begin again.
//   - Until a node has measured the loss of its networks it has no doubts of its own.
//   - All traffic is bounded: looks, questions to watchers and words each have a budget. A node that misses a sixth of
//     the group sends no words: that is a cut, which the sweeps handle.
//
// # Concurrency, blocking, errors
//
// A [Core] belongs to one goroutine at a time. Nothing blocks and nothing fails.
package doubt
