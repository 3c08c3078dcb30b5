package swim

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Sink takes what an instance learns. Its methods are called from memberlist's
// goroutines, some of them under memberlist's node lock: they must copy, post and
// return, never block and never call back into the instance. An instance makes one call
// at a time, and none after its Stop has returned; several instances call concurrently.
type Sink interface {
	// MemberChanged says that memberlist began or ceased to hold a roster member alive. A death that the member did
	// not announce is dated by the latest time of the accusation: Params.AccusedSince before it became known.
	MemberChanged(network, peer int, alive bool, at boottime.Instant)
	// Answered reports completed two-way evidence; its Statement is never nil.
	Answered(a netgossip.Answer)
	// Vouched reports that the samples begun up to an instant were answered; see
	// netgossip.Merger. Large rosters only.
	Vouched(network int, at boottime.Instant)
	// Missed reports a peer that did not answer the probes since an instant, so that no vouch covers it; with void many
	// fell silent together, and earlier evidence of the peer no longer counts.
	Missed(network, peer int, since boottime.Instant, void bool)
	// Doubted reports the beginning of a sweep. Tell the node's other instances with Doubt.
	Doubted(network int)
	// Heard reports any packet of the evidence protocol from a peer: the peer was alive, one way, at that instant. That
	// is when the packet was made, at the latest, and not when it came: the packet may have been sent again.
	Heard(network, peer int, at boottime.Instant)
	// Conflict reports a second node that uses the name of a member, this node's included.
	// It is called with every packet of that node.
	Conflict(network int, name, address string)
}
