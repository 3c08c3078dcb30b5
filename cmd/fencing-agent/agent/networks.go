package agent

import (
	"net/netip"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/gossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// newGossip prepares the gossip on all networks.
func (a *Agent) newGossip() *gossip.Networks {
	return gossip.New(gossip.Config{
		Config: a.cfg, Roster: a.roster, Listen: a.opts.Listen, Links: a.opts.Links, Clock: a.clock, Logger: a.log, Registry: a.reg,
		AddressesFollow: a.members.FromNodes(),
		Reports:         func(r *roster.Roster) gossip.Reports { return sink{box: a.box, roster: r} },
		Stalled:         a.stalled,
		HandsOver:       a.members.HandsOver,
		Handed:          func(r *roster.Roster) { a.box.put(func(b *batch) { b.handed = append(b.handed, r) }) },
		LinkChanged: func(network int, up bool) {
			a.box.put(func(b *batch) {
				b.links[network] = linkReport{changed: true, up: up}
				b.linkDirty = true
			})
		},
		AddressChanged: func(network string, to netip.Addr) { a.kube.marks.moved(network, to) },
	})
}

// stalled reports whether the loop does not run. What it said last is nobody's word any more.
func (a *Agent) stalled() bool {
	at := boottime.Instant(a.life.alive.Load())
	return a.clock().Sub(at) > 3*maxIdle
}
