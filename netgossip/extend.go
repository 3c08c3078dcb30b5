package netgossip

import "github.com/fencing-agent/fencing-agent/boottime"

// Extend counts peers by evidence that does not come from a network. until has, by peer index, the end of the time for
// which the peer counts; 0: it does not count this way. Extend changes the counted members of v and the time for which
// they are a quorum. Which peers are seen and in contact still depends on the networks alone. v must be the latest
// result of Evaluate. Extend does not allocate.
func (m *Merger) Extend(v *View, now boottime.Instant, quorum int, until []boottime.Instant) {
	networks := v.Counted
	lasts := func(p int) (e boottime.Instant) {
		if networks.Has(p) {
			e = m.peerExpiry(p)
		}
		if p < len(until) {
			e = max(e, until[p])
		}
		return e
	}
	m.voters = m.voters[:0]
	for p := range m.peers {
		if p == m.roster.Self || lasts(p) <= now {
			continue
		}
		v.Counted.Add(p)
		m.voters = append(m.voters, p)
		v.NextExpiry = min(v.NextExpiry, lasts(p))
	}
	if m.electorates == nil {
		m.expiry = m.expiry[:0]
		for _, p := range m.voters {
			m.expiry = append(m.expiry, lasts(p))
		}
		v.QuorumUntil = m.lastsUntil(m.expiry, now, quorum-1)
		return
	}
	for i, e := range m.electorates {
		others := e.Quorum
		if e.Members.Has(m.roster.Self) {
			others--
		}
		m.expiry = m.expiry[:0]
		for _, p := range m.voters {
			if e.Members.Has(p) {
				m.expiry = append(m.expiry, lasts(p))
			}
		}
		if end := m.lastsUntil(m.expiry, now, others); i == 0 || end < v.QuorumUntil {
			v.QuorumUntil = end
		}
	}
}
