// Package ownnode follows the Node object of the machine that the agent runs on: whether it
// is under maintenance, and whether it is expectedly being removed. Both disarm the watchdog.
//
// # What it decides
//
// [Rules.Judge] turns a [State] into signals, without I/O: maintenance is the presence of one
// of the configured annotations, whatever its value; a removal is a Node that is being
// deleted or was, or that the cluster autoscaler has marked with the taint [RemovalTaint].
//
// A Node that was never seen is neither: [State.Known] is false until the API server has
// shown it once. The caller does not arm before, unless it remembers an earlier State.
//
// # Load on the API server
//
// [Watcher.Run] sends one request for one object, a list with a field selector, and then
// keeps one watch of it, whatever the size of the cluster. A watch that ends is resumed from
// the last resource version, which bookmarks keep recent. Only a version that the server has
// forgotten (410 Gone) costs another such request. After errors the pause doubles up to
// [longestPause], is spread by chance and never shorter than the server's Retry-After.
//
// # What is known while the API server is away
//
// The last State stays in effect. Nothing is reported and nothing expires: how old the State is
// has no bearing on the verdict. So a maintenance that began before the outage goes on, and a
// maintenance that begins during the outage is not noticed; the disable file is there for that.
//
// # Concurrency
//
// Run owns the only goroutine and calls Config.OnState from it, which must not block. Run
// returns when its context has ended. Requests have deadlines; a watch on which nothing
// arrives for [quiet] is made again.
package ownnode
