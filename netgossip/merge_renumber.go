package netgossip

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Renumber makes to the roster whose indices the merger uses. The state of members that are on both rosters is kept.
func (m *Merger) Renumber(to *roster.Roster) {
	n := roster.Renumber(m.roster, to)
	links, peers := make([]link, len(m.up)*to.Size()), make([]peer, to.Size())
	old := m.roster
	m.roster = to
	for i, k := range n {
		if k < 0 {
			continue
		}
		for network := range m.up {
			links[network*len(peers)+k] = m.links[network*old.Size()+i]
		}
		peers[k] = m.peers[i]
		peers[k].understand(m)
	}
	m.links, m.peers = links, peers
	m.expiry, m.voters = make([]boottime.Instant, 0, 2*to.Size()), make([]int, 0, to.Size())
	for i := range m.electorates {
		m.electorates[i].Members = n.Set(m.electorates[i].Members)
	}
}

// understand interprets the peer's latest statement by the merger's present roster.
func (p *peer) understand(m *Merger) {
	if p.statement == nil {
		return
	}
	raw := p.said
	if raw == nil {
		raw = p.statement
	}
	p.statement, p.said = raw, nil
	if !m.sameRoster(raw) {
		p.statement, p.said = raw.foreign(), raw
	}
}
