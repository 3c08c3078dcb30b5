package swim

import (
	"net/netip"

	"github.com/hashicorp/memberlist"
)

// ReadFrom has memberlist read from a transport itself, with nothing between. Call it before Start.
func (in *Instance) ReadFrom(t memberlist.NodeAwareTransport) { in.transport = t }

// Opens is the check that every transport makes of a packet.
func (in *Instance) Opens(b []byte, from netip.Addr) bool { return in.ledger.opens(b, from) }

// Join has memberlist exchange its table with a peer, as the rejoin loop does.
func (in *Instance) Join(peer int) error {
	for _, t := range in.rejoin.targets {
		if t.index == peer {
			_, err := in.list.Load().Join([]string{t.addr.Name + "/" + t.addr.Addr})
			return err
		}
	}
	return nil
}
