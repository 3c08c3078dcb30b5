package sim

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// The functions below check the evidence that nodes have of their peers against the network's record: which packets it
// carried and when, and which links were whole for how long. None of them asks the scheduler.

// link is the network's record of a node's probes of one peer, in this life of the node.
type link struct {
	answered boottime.Instant     // when the youngest answered probe was sent
	asked    [40]boottime.Instant // the last probes, a ring
	at       int                  // the index in the ring
	slander  boottime.Instant     // when memberlist last reported the peer dead, which makes evidence void that is a little old
}

func (n *Node) link(network, peer int) *link { return &n.links[network*n.peers+peer] }

// checkDate compares the evidence of a peer with the packets: it is as old as the youngest probe that was answered, if
// no vouch covers the peer.
func (c *Cluster) checkDate(n *Node, g *gossip, p *Node, index int) {
	_, proven, _ := n.core.Merger().LinkState(g.network, index, c.now)
	if sent := n.link(g.network, p.Index).answered; proven > sent && proven > g.vouched {
		c.check.add("%v: %s dates its evidence of %s on network %d %v later than the probe that was answered",
			c.Now(), n.Name, p.Name, g.network, proven.Sub(sent))
	}
}

// checkVouch compares a vouch with the packets: some peer has answered a probe that is hardly older. A missed sample
// moves the vouch on as long as few are missed, so where few peers are left it is possible that none of them has
// answered. But then the vouch must cover no peer before half of the time that evidence lasts is over. Samples take
// long on a slow network, too: there checkQuorum is the bound.
func (c *Cluster) checkVouch(n *Node, g *gossip) {
	c.check.Vouches++
	if c.weather[g.network].Slow > 0 || c.now.Sub(c.cleared[g.network]) < 2*g.params.EvidenceMaxAge {
		return
	}
	latest := boottime.Instant(0)
	for p := range c.nodes {
		latest = max(latest, n.link(g.network, p).answered)
	}
	late := g.vouched.Sub(latest)
	if late <= g.params.EvidenceMaxAge/2 {
		return
	}
	for i := range n.roster.Members {
		if _, proven, reachable := n.core.Merger().LinkState(g.network, i, c.now); reachable && proven == g.vouched {
			c.check.add("%v: %s vouches for %s on network %d until %v after the latest probe that anybody answered",
				c.Now(), n.Name, n.roster.Name(i), g.network, late)
		}
	}
}

// checkRate limits the probes of one peer: 20 a second because of news, and the ones that are due by time.
func (c *Cluster) checkRate(n *Node, g *gossip, p *Node) {
	l := n.link(g.network, p.Index)
	c.check.Probes++
	if first := l.asked[l.at]; first > 0 && c.now.Sub(first) < time.Second {
		c.check.add("%v: %s probes %s on network %d %d times in %v", c.Now(), n.Name, p.Name, g.network, len(l.asked), c.now.Sub(first))
	}
	l.asked[l.at] = c.now
	l.at = (l.at + 1) % len(l.asked)
}

// checkQuorum compares the end of a quorum with the truth: it lasts no longer than evidence does. Samples are answered
// at random, after the last moment at which enough peers could be heard.
func (c *Cluster) checkQuorum(n *Node) {
	until := n.core.View().QuorumUntil
	if until <= c.now || len(c.cfg.Lists) > 0 || n.roster.Size() != len(c.nodes) {
		return
	}
	others := n.core.Rosters().Quorum() - 1
	if others == 0 {
		return
	}
	t := c.times(n)
	lasts := t.Timing.MaxAge + c.cfg.sampling(t)
	if c.heardSince(n, until.Add(-lasts), others) {
		return
	}
	last, onNetworks := make([]boottime.Instant, 0, len(c.nodes)), make([]boottime.Instant, len(c.cfg.Networks))
	for _, p := range c.nodes {
		if p == n {
			continue
		}
		for k := range onNetworks {
			onNetworks[k] = c.lastHeard(k, n, p)
		}
		slices.Sort(onNetworks)
		last = append(last, c.countedUntil(n, p, onNetworks[len(onNetworks)-c.cfg.Policy.Needed(len(onNetworks))]))
	}
	slices.Sort(last)
	latest := last[len(last)-others]
	switch over := until.Sub(latest); {
	case over <= 0:
	case over <= c.cfg.Margin/4:
		// A known fault of the samples, counted: right after the evidence of a majority has run out, a vouch may move on
		// once more and bring the quorum back for a moment. The budget's margin, four times as much, covers it.
		c.check.Stretched++
	default:
		c.check.add("%v: %s counts on its quorum for %v longer than it can know of it", c.Now(), n.Name, until.Sub(latest))
	}
}

// heardSince reports whether this many other nodes could be heard at an instant or later. Almost always they can be
// heard now, and checkQuorum need not sort them.
func (c *Cluster) heardSince(n *Node, since boottime.Instant, others int) bool {
	needed := c.cfg.Policy.Needed(len(c.cfg.Networks))
	for _, p := range c.nodes {
		if p == n {
			continue
		}
		networks := 0
		for k := range c.cfg.Networks {
			if c.lastHeard(k, n, p) >= since {
				networks++
			}
		}
		if networks < needed {
			continue
		}
		if others--; others == 0 {
			return true
		}
	}
	return false
}

// slandered is how soon a peer must be asked and have answered after memberlist has reported it dead.
const slandered = 500 * time.Millisecond

// lookEvery is the time between two checks of all links.
const lookEvery = 250 * time.Millisecond

// checkLinks checks the purpose of the scheduler: if a peer could be reached both ways for a while, there is young
// evidence of it, on each network. A while is how long evidence lasts: a peer that was lost is asked once per
// EvidenceInterval, and must see this node before a vouch covers it.
func (c *Cluster) checkLinks() {
	if c.now < c.check.links {
		return
	}
	c.check.links = c.now.Add(lookEvery)
	for k := range c.cfg.Networks {
		for _, n := range c.nodes {
			for _, p := range c.nodes {
				if n == p {
					continue
				}
				since, whole := c.wholeSince(k, n, p)
				t := c.times(n).Timing.MaxAge
				if !whole || c.now.Sub(since) < t || c.now.Sub(n.link(k, p.Index).slander) < slandered {
					continue
				}
				i, _ := n.indices.of(p)
				_, proven, reachable := n.core.Merger().LinkState(k, i, c.now)
				if age := c.now.Sub(proven); !reachable || age > c.oldest(t) {
					c.check.add("%v: network %d has been whole between %s and %s for %v, and the evidence is %v old, counts %v",
						c.Now(), k, n.Name, p.Name, c.now.Sub(since), age, reachable)
				}
				c.check.Links++
			}
		}
	}
}

// oldest returns the greatest age of evidence on a whole network, for a node whose evidence lasts this long. Half of
// that is the longest interval. It is added to a vouch's age where samples are given up for probes of each peer.
func (c *Cluster) oldest(lasts time.Duration) time.Duration {
	if len(c.nodes) < sampledFrom {
		return lasts*3/5 + 20*time.Millisecond
	}
	return lasts
}

// wholeSince returns since when two nodes have had a working path on a network.
func (c *Cluster) wholeSince(network int, a, b *Node) (since boottime.Instant, whole bool) {
	if !c.talk(network, a, b) || c.weather[network] != (Weather{}) || !a.core.Merger().NetworkUp(network) || !b.core.Merger().NetworkUp(network) {
		return 0, false
	}
	g, h := a.gossip[network], b.gossip[network]
	for _, x := range [...]indices{a.indices, g.indices} {
		if _, ok := x.of(b); !ok {
			return 0, false
		}
	}
	if _, ok := h.indices.of(a); !ok {
		return 0, false
	}
	since = max(a.resumed, b.resumed, g.began, h.began, c.cleared[network],
		c.wire(network, a.Index, b.Index).joined, c.wire(network, b.Index, a.Index).joined)
	return since, true
}
