// Package ownnode follows the Node object of the machine on which the agent runs: whether it is under maintenance, and
// whether it is being removed on purpose. Both disarm the watchdog.
//
// # What it decides
//
// [Rules.Judge] derives signals from a [State], without I/O. A node is under maintenance if its Node has one of the
// configured annotations, with any value. It is being removed if its Node is being deleted or was deleted, or if the
// cluster autoscaler has put the taint [RemovalTaint] on it.
//
// A Node that was never seen is neither: [State.Known] is false until the API server has shown it once. Until then the
// caller does not arm, unless it remembers an earlier State.
//
// # Load on the API server
//
// [Watcher.Run] sends one request for one object, a list with a field selector, and then keeps one watch of it,
// whatever the size of the cluster. A watch that ends is resumed from the last resource version, which bookmarks keep
// recent. Only if the server has forgotten that version (410 Gone), another such request is needed. After errors the
// pause doubles up to [longestPause], has a random part, and is never shorter than the server's Retry-After.
//
// # What is known while the API server is unreachable
//
// The last State stays in effect. Nothing is reported and nothing expires: the age of the State does not affect the
// verdict. So a maintenance that began before the outage continues. A maintenance that begins during the outage is not
// noticed; use the disable file for that.
//
// # Concurrency
//
// Run has the only goroutine and calls Config.OnState from it, which must not block. Run returns when its context has
// ended. Requests have deadlines. A watch on which nothing arrives for [quiet] is replaced by a new one.
package ownnode
