package netgossip

import "github.com/fencing-agent/fencing-agent/boottime"

// Edge is a change in whether a peer is reachable on one network.
type Edge struct {
	Network, Peer int
	Reachable     bool
}

// Edges finds the changes of reachability per network and, merged, per peer, by comparing successive states of a
// Merger. Of the merged view it only remembers when it changed; package watchdog decides what is published. At first no
// peer is reachable.
type Edges struct {
	peers  int
	links  []standing // [network*peers + peer]
	merged []standing // [peer]
	found  []Edge
}

type standing struct {
	reachable bool
	since     boottime.Instant // of the last change; zero: there was none
}

// change records the reachability at now and reports whether it has changed.
func (s *standing) change(reachable bool, now boottime.Instant) bool {
	if s.reachable == reachable {
		return false
	}
	s.reachable, s.since = reachable, now
	return true
}

// NewEdges returns an Edges for the given numbers of networks and roster members.
func NewEdges(networks, peers int) *Edges {
	return &Edges{peers: peers, links: make([]standing, networks*peers), merged: make([]standing, peers)}
}

// Update compares the merger at now, and its view of that moment, with the last call. It
// returns each change since then once; the slice is overwritten by the next call.
func (e *Edges) Update(m *Merger, v *View, now boottime.Instant) []Edge {
	e.found = e.found[:0]
	for i := range e.links {
		network, peer := i/e.peers, i%e.peers
		if peer == m.roster.Self {
			continue
		}
		if _, _, reachable := m.LinkState(network, peer, now); e.links[i].change(reachable, now) {
			e.found = append(e.found, Edge{Network: network, Peer: peer, Reachable: reachable})
		}
	}
	for p := range e.merged {
		e.merged[p].change(v.Seen.Has(p), now)
	}
	return e.found
}

// LinkSince returns when the peer's reachability on the network last changed, or zero.
func (e *Edges) LinkSince(network, peer int) boottime.Instant {
	return e.links[network*e.peers+peer].since
}

// Link returns LinkSince, and whether the peer has been reachable since then.
func (e *Edges) Link(network, peer int) (since boottime.Instant, reachable bool) {
	l := e.links[network*e.peers+peer]
	return l.since, l.reachable
}

// Since returns when the peer's merged reachability last changed, or zero.
func (e *Edges) Since(peer int) boottime.Instant { return e.merged[peer].since }
