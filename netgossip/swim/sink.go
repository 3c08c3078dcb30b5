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
	// MemberChanged says that memberlist began or ceased to hold a roster member alive.
	MemberChanged(network, peer int, alive bool, at boottime.Instant)
	// Answered reports completed two-way evidence; its Statement is never nil.
	Answered(a netgossip.Answer)
	// Heard reports any own-protocol packet from a peer: it was alive, one way, at that moment.
	Heard(network, peer int, at boottime.Instant)
	// Conflict reports a second node that uses the name of a member, the own one included.
	// It is called with every packet of that node.
	Conflict(network int, name, address string)
}
