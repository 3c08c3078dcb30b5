package swim

import (
	"io"
	"log"
	"net/netip"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// ReadFrom makes memberlist read directly from a transport, and ends the layers in between. Call it before Start.
func (in *Instance) ReadFrom(t memberlist.NodeAwareTransport) error {
	between := in.transport
	in.transport = t
	return between.Shutdown()
}

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

// Refused returns the number of refusals for a reason.
func (in *Instance) Refused(reason string) float64 {
	return testutil.ToFloat64(in.count.refused[refusal(reason)].prom)
}

// NotifyAlive is the question that memberlist asks before it accepts a node.
func (in *Instance) NotifyAlive(n *memberlist.Node) error { return delegate{in}.NotifyAlive(n) }

// Listen opens a UDP and a TCP socket at the address, which streams are dialed from as
// well. Routing decides how their packets leave the node. An instance without a Listener opens the same.
func Listen(at netip.AddrPort) (memberlist.NodeAwareTransport, error) { return ListenOn("")(at) }

// ListenOn is [Listen] with the sockets pinned to a device: they send and receive by it
// only. The error is a [*PinError] if they cannot be pinned.
func ListenOn(device string) Listener {
	return func(at netip.AddrPort) (memberlist.NodeAwareTransport, error) {
		l := newLedger(NewMetrics(nil).network(""), boottime.Now, nil)
		return openSockets(at, device, l, log.New(io.Discard, "", 0))
	}
}
