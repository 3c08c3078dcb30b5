package netgossip

import "github.com/fencing-agent/fencing-agent/boottime"

// Renumbering leads from the indices of one roster to those of another: by the old index
// the new one, or -1 for who is not on the other.
type Renumbering []int

// Renumber compares two rosters by name.
func Renumber(from, to *Roster) Renumbering {
	n := make(Renumbering, from.Size())
	for i := range n {
		n[i] = -1
		if k, ok := to.Index(from.Name(i)); ok {
			n[i] = k
		}
	}
	return n
}

// Set translates a set; who is not on the other roster is dropped.
func (n Renumbering) Set(s Set) Set {
	var out Set
	for i := range s.All() {
		if i < len(n) && n[i] >= 0 {
			out.Add(n[i])
		}
	}
	return out
}

// SetOf is the members of r as indices of the directory d. Who is not on d is left out.
func (r *Roster) SetOf(d *Roster) Set {
	if r == d {
		return FullSet(r.Size())
	}
	return Renumber(r, d).Set(FullSet(r.Size()))
}

// Renumber makes to the roster by whose indices the merger counts. What it knows of those
// who are on both stays.
func (m *Merger) Renumber(to *Roster) {
	n := Renumber(m.roster, to)
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

// understand reads the peer's latest statement by the merger's roster, whichever that is.
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
