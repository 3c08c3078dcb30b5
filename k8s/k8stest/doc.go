// Package k8stest is a small Kubernetes API server for tests: Nodes and Events over HTTP, with
// resource versions, pages, watches that resume, bookmarks, compaction and merge patches, as far
// as the agent uses them.
//
// The network under it is made of pipes, so that it works in testing/synctest bubbles and
// whole hours pass in no time; HTTP and client-go are the real ones. What only a real server
// does is not tested with it.
//
// A [Server] is safe for concurrent use. It records every request it gets.
package k8stest
