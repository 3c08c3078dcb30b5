// Package doubt decides when the silence of a peer is published, before its evidence has run out: a peer that several
// members miss, each by probes of its own and on all networks, is LEFT within two seconds. It is pure: instants,
// arrivals and chance are arguments, a peer is an index of the roster, and how a probe or a word gets to a peer is left
// to the owner (swim.Doubts in the agent).
//
// The steps (docs/adr/0030-left-by-doubt.md has the reasons, docs/tuning.md the arithmetic):
//
//  1. A probe that is late on one network makes this node look at the peer on all networks.
//  2. A peer that is silent on all of them is looked at by its five watchers, which follow from the peer's number, so
//     that many finders do not make more watchers.
//  3. A watcher that misses it, too, tells the finder and the watchers. When three miss the peer, and the window is
//     nearly over, two of them tell everybody to look.
//  4. A member whose own silence has lasted for the window gives its firm word to everybody.
//  5. A node publishes LEFT when it has three firm words of different members, its own look has found nothing, and the
//     answer of somebody else shows that this node is not the sick one.
//
// # State and invariants
//
//   - Nothing here enters the verdict. A peer that is LEFT by doubt is still seen, and counted, for as long as its evidence lasts.
//   - A peer that answers a probe is not in doubt: any answer ends everything that was said about it before.
//   - The silence that a member vouches for is its own, from the start of its own first unanswered probe.
//   - A member has one voice, whatever it says and however often.
//   - A node that was frozen, or hears nobody, has no doubts: they begin again.
//   - Until a node has measured the loss of its networks it has no doubts of its own.
//   - What is sent is bounded: looks, questions to watchers and words each have a budget, and a node that misses a
//     sixth of the group says nothing: that is a cut, which is left to the sweeps.
//
// # Concurrency, blocking, errors
//
// A [Core] belongs to one goroutine at a time. Nothing blocks and nothing fails.
package doubt
