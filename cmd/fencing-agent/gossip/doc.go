// Package gossip is this node's gossip on all of its SystemNetworks: one swim instance for each, pinned to the
// network's device, and what the instances tell each other.
//
//	what the agent says --> Networks --> every instance
//	every instance --> crossing: what concerns the other instances goes to them --> Reports --> the loop
//
// What a node finds out on one network concerns the others at once: a peer that misses a probe here is asked there, and
// one that answered here need not be asked there so soon. This package decides that, not the receiver of the reports.
//
// When the list of members changes, the instances are replaced one after the other by instances with the new list. The
// rest of the agent notices nothing: calls go to the present instance.
//
// # Ownership
//
// Say, Tell, SetDemand, Ask, Follow and Fetch belong to the agent's loop; they do not block. Everything else may be
// called from any goroutine.
package gossip
