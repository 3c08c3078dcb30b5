package swim

import (
	"sync/atomic"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/probing"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// target is another member of the roster with its address on this network.
type target struct {
	index int // in the roster
	addr  memberlist.Address
}

// peer holds the state that the schedule and the evidence goroutine keep of a target.
type peer struct {
	*probing.Peer
	addr  memberlist.Address
	clock peerClock
	owing *atomic.Int64 // in evidence.owing
}

// sharesRoster reports whether the peer's latest statement uses the roster r.
func (p *peer) sharesRoster(r *roster.Roster) bool {
	return p.Known != nil && p.Known.RosterDigest == r.Digest && p.Known.RosterEpoch == r.Epoch
}

// boot returns the peer's boot, by its answer or its earlier statement; 0: not known.
func (p *peer) boot(said *netgossip.Statement) uint64 {
	if said == nil {
		said = p.Known
	}
	if said == nil {
		return 0
	}
	return said.Boot
}
