// Package members finds the lists of members of this node's group, and stores them.
//
//	Source (file, Nodes, or what a test gives) --> Listed --> the loop --> Learn --> the core
//	a peer that has a list which this node lacks --> Fetch ... LearnHanded --> the core
//	the core wants a list remembered --> Follow --> members.cacheFile --> Saved --> the loop --> the core
//
// A list is a proposal until the group agrees on it (docs/adr/0009). The core decides which lists count, by the
// roster.Succession that Begin creates. This package reads, stores and passes on lists, and logs what people have to
// know. The agent renumbers everything when the directory changes.
//
// # Ownership
//
// Begin comes first and may wait for a list for as long as needed. Learn, LearnHanded, Follow, Grow and Largest belong
// to the agent's loop and do not block: the disk and the source have a goroutine each, which Start starts. HandsOver
// may be called from any goroutine. Forgetting a list that was in use could let two parts of the group live. So a list
// only counts once it is durable, and an agent that cannot store a list does not use it.
package members
