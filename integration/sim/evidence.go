package sim

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// What follows judges the evidence that nodes have of their peers by what the network knows: which
// packets it carried and when, and which links were whole for how long. None of it asks the scheduler.

// link is what the network knows of a node's probes of one peer, in this life of the node.
type link struct {
	answered boottime.Instant     // when the youngest probe was sent of those whose answers came
	asked    [40]boottime.Instant // the latest probes, a ring
	at       int                  // in it
	slander  boottime.Instant     // when memberlist called the peer dead last, which voids what is a little old
}

func (n *Node) link(network, peer int) *link { return &n.links[network*n.peers+peer] }

// checkDate holds the evidence of a peer to the packets: it is as old as the youngest probe that was
// answered, if no vouch covers the peer.
func (c *Cluster) checkDate(n *Node, g *gossip, p *Node, index int) {
	_, proven, _ := n.core.Merger().LinkState(g.network, index, c.now)
	if sent := n.link(g.network, p.Index).answered; proven > sent && proven > g.vouched {
		c.check.add("%v: %s dates its evidence of %s on network %d %v later than the probe that was answered",
			c.Now(), n.Name, p.Name, g.network, proven.Sub(sent))
	}
}

// checkVouch holds a vouch to the packets: somebody has answered a probe that is hardly older. A sample that is missed
// moves the vouch on as long as there are few of them, so where few peers are left none of them need have answered; but
// then the vouch must cover nobody before half of the time that evidence lasts is over. Samples take long on a slow
// network, too: there checkQuorum is the bound.
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

// checkRate bounds the probes of one peer: 20 a second because of news, and those of time passing.
func (c *Cluster) checkRate(n *Node, g *gossip, p *Node) {
	l := n.link(g.network, p.Index)
	c.check.Probes++
	if first := l.asked[l.at]; first > 0 && c.now.Sub(first) < time.Second {
		c.check.add("%v: %s probes %s on network %d %d times in %v", c.Now(), n.Name, p.Name, g.network, len(l.asked), c.now.Sub(first))
	}
	l.asked[l.at] = c.now
	l.at = (l.at + 1) % len(l.asked)
}

// checkQuorum holds the end of a quorum to the truth: it lasts no longer than evidence does, and samples
// are answered by chance, after enough peers could be heard for the last time.
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

// heardSince reports whether this many others could be heard at an instant or later: almost always they can be
// heard now, and checkQuorum need not put them in order.
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

// slandered is how soon a peer is asked, and has answered, after memberlist has said that it is dead.
const slandered = 500 * time.Millisecond

// lookEvery is the time between two checks of all links.
const lookEvery = 250 * time.Millisecond

// checkLinks holds the scheduler to what it is for: of a peer that could be talked to both ways for a
// while there is evidence, and it is young, on each network. A while is how long evidence lasts: a peer that
// was lost is asked once an EvidenceInterval, and must see this node before a vouch covers it.
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

// oldest is how old evidence gets on a whole network, for a node whose evidence lasts this long: half of
// that is the longest interval, and comes on top of a vouch's age where samples are given up for probes of each.
func (c *Cluster) oldest(lasts time.Duration) time.Duration {
	if len(c.nodes) < sampledFrom {
		return lasts*3/5 + 20*time.Millisecond
	}
	return lasts
}

// wholeSince is since when nothing has kept two nodes from talking on a network.
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
