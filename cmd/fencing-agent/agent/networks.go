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
		Config: a.cfg, Roster: a.roster, Listen: a.opts.Listen, Links: a.opts.Links, Clock: a.clock, Logger: a.log, Registry: a.opts.Registry,
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
		Away:           func(network string, why error) { a.published.parts.Note("network "+network, why) },
		AddressChanged: func(network string, to netip.Addr) { a.kube.marks.moved(network, to) },
	})
}

// stalled reports whether the loop does not run. Its last statement then no longer counts.
func (a *Agent) stalled() bool {
	at := boottime.Instant(a.life.alive.Load())
	return a.clock().Sub(at) > 3*maxIdle
}

// hear gives the core what the networks found out about the peers.
func (a *Agent) hear(b *batch) {
	m := a.core.Merger()
	for _, i := range b.dirty {
		r, network, peer := &b.peers[i], i/a.roster.Size(), i%a.roster.Size()
		if r.heard > 0 {
			m.Heard(network, peer, r.heard)
		}
		if r.changed > 0 {
			m.MemberChanged(network, peer, r.alive, r.changed)
		}
		if r.missed > 0 {
			m.Missed(network, peer, r.missed, r.void)
		}
		if r.answer.SentAt > 0 {
			m.Answered(r.answer)
		}
	}
	for n, at := range b.vouched {
		m.Vouched(n, at)
	}
	if b.silent != nil {
		a.core.SetSilent(*b.silent)
	}
}

// linksChanged tells the users of a network that this node's side of it went down or came up.
func (a *Agent) linksChanged(b *batch) {
	if !b.linkDirty {
		return
	}
	for n, l := range b.links {
		if !l.changed {
			continue
		}
		a.core.Merger().LinkChanged(n, l.up)
		a.log.Warn("network changed", "network", a.cfg.SystemNetworks[n].Name, "up", l.up)
		if l.up {
			a.gossip.Renew(n) // its old evidence is void
		}
	}
}
