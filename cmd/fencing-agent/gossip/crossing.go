package gossip

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// crossing handles the reports of one instance: the loop gets all of them, and the instances of the other networks get
// those that concern them. It is a swim.Sink, and called under the instance's locks: nothing here blocks.
type crossing struct {
	Reports
	roster   *roster.Roster // of the instance
	networks *Networks
}

// others calls the instances of all networks but one. The networks are complete before the
// first instance starts.
func (c crossing) others(network int, do func(*swim.Instance)) {
	for i, w := range c.networks.all {
		if i != network {
			w.do(do)
		}
	}
}

// Answered implements swim.Sink. The other networks learn that the peer answered on this one. It is called for
// every answer and does not allocate.
func (c crossing) Answered(a netgossip.Answer) {
	c.Reports.Answered(a)
	peer := c.roster.Name(a.Peer)
	for i, w := range c.networks.all {
		if in := w.now(); i != a.Network && in != nil {
			in.swim.Proven(peer, a.SentAt, a.Statement != nil)
		}
	}
}

// Missed implements swim.Sink. The other networks find out at once whether they reach the peer.
func (c crossing) Missed(network, peer int, since boottime.Instant, void bool) {
	c.Reports.Missed(network, peer, since, void)
	c.others(network, func(in *swim.Instance) { in.Verify(peer) })
}

func (c crossing) Doubted(network int) { c.others(network, (*swim.Instance).Doubt) }

func (c crossing) Conflict(network int, name, address string) {
	c.networks.alarms.report(nameConflict{c.networks.cfg.Config.SystemNetworks[network].Name, name, address, OtherAddress})
}
