package swim

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Sink receives the reports of an instance. Its methods are called from memberlist's goroutines, some of them under
// memberlist's node lock: they must copy, post and return, never block and never call back into the instance. An
// instance makes one call at a time, and none after its Stop has returned; several instances call concurrently.
type Sink interface {
	// MemberChanged reports that memberlist now calls a roster member alive, or no longer does. A death that the member
	// did not announce is dated by the latest possible start of the accusation: Params.AccusedSince before the report.
	MemberChanged(network, peer int, alive bool, at boottime.Instant)
	// Answered reports completed two-way evidence; its Statement is never nil.
	Answered(a netgossip.Answer)
	// Vouched reports that the samples begun up to an instant were answered, see netgossip.Merger. Only large rosters
	// use it.
	Vouched(network int, at boottime.Instant)
	// Missed reports a peer that did not answer the probes since an instant, so no vouch covers it. void reports that
	// many peers fell silent together, and that earlier evidence of the peer no longer counts.
	Missed(network, peer int, since boottime.Instant, void bool)
	// Doubted reports the beginning of a sweep. Pass it to the node's other instances with Doubt.
	Doubted(network int)
	// Heard reports any packet of the evidence protocol from a peer: it proves, in one direction, that the peer was
	// alive at that instant. The instant bounds when the packet was created, and is not its arrival: the packet may be
	// a replay.
	Heard(network, peer int, at boottime.Instant)
	// Conflict reports a second node that uses the name of a member, which may be this node. It is called with every
	// packet of that node.
	Conflict(network int, name, address string)
}
