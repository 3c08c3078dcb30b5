// Package members serves the lists of members of all groups. It also sends each agent the state of its Node
// (docs/adr/0049).
//
//	Nodes, books (watched) --> Hub --> Server --> agents
//	agents' addresses -------> Hub --> Scribe --> books, by compare-and-swap
//
// The decisions are in k8s/memberbook. [Hub] holds what this replica knows, [Scribe] writes books, [Server] has a
// goroutine for each stream. [Store] and [Reviewer] are the API server. All replicas do the same; there is no leader.
//
// # Concurrency
//
// A Hub may be used from any goroutine, and does not block. Scribe.Run owns its record of doubts. A slow agent delays
// only itself: it is sent the latest state, not each one.
package members
