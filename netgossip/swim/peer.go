package swim

import (
	"sync/atomic"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/probing"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// target is another member of the roster and where it is on this network.
type target struct {
	index int // in the roster
	addr  memberlist.Address
}

// peer is what the schedule and the evidence goroutine keep of a target.
type peer struct {
	*probing.Peer
	addr  memberlist.Address
	clock peerClock
	owing *atomic.Int64 // in evidence.owing
}

// sharesRoster reports whether the peer counts by the roster r, as far as it has said.
func (p *peer) sharesRoster(r *roster.Roster) bool {
	return p.Known != nil && p.Known.RosterDigest == r.Digest && p.Known.RosterEpoch == r.Epoch
}

// boot is that of the peer, by its answer or what it said before; 0: it is not known.
func (p *peer) boot(said *netgossip.Statement) uint64 {
	if said == nil {
		said = p.Known
	}
	if said == nil {
		return 0
	}
	return said.Boot
}
