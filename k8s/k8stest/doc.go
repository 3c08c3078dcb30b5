// Package k8stest is a small Kubernetes API server for tests: Nodes and Events over HTTP, with resource versions,
// pages, watches that resume, bookmarks, compaction and merge patches, as far as the agent uses them.
//
// The network below it consists of pipes, so that it works in testing/synctest bubbles, where hours pass without
// waiting. HTTP and client-go are the real ones. Behaviour that only a real server has is not tested with it.
//
// A [Server] is safe for concurrent use. It records every request that it gets.
package k8stest
