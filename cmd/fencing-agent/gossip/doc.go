// Package gossip is this node's gossip on all of its SystemNetworks: one swim instance for each, pinned to the
// network's device, and the messages between the instances.
//
//	what the agent says --> Networks --> every instance
//	every instance --> crossing: what concerns the other instances goes to them --> Reports --> the loop
//
// A result on one network concerns the other networks at once. If a peer misses a probe here, it is asked there; if it
// answered here, it need not be asked there so soon. This package decides that, not the receiver of the reports.
//
// When the list of members changes, the instances are replaced one after the other by instances with the new list. The
// rest of the agent notices nothing: calls go to the present instance.
//
// # Ownership
//
// Say, Tell, SetDemand, Ask, Follow and Fetch belong to the agent's loop; they do not block. Everything else may be
// called from any goroutine.
package gossip
