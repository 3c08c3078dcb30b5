package sim

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// look is memberlist on one network of a node, reduced to its possible reports: a peer is dead if for a while it was
// not found, directly or through another node; a peer is alive again; and, at random, a peer is dead although it is
// there.
func (c *Cluster) look(n *Node, g *gossip) {
	c.during(n, 400*time.Millisecond+time.Duration(c.rng.Int64N(int64(200*time.Millisecond))), func() {
		if n.gossip[g.network] != g {
			return
		}
		for _, p := range c.nodes {
			if g.schedule.Peer(p.Index) != nil {
				c.lookAt(n, g, p)
			}
		}
		c.look(n, g)
	})
}

func (c *Cluster) lookAt(n *Node, g *gossip, p *Node) {
	listed := g.listed[p.Index]
	if c.talk(g.network, n, p) {
		g.silent[p.Index] = 0
		switch {
		case !listed && c.rng.IntN(2) == 0:
			c.rumour(n, g, p, true)
		case listed && c.cfg.Rumours > 0 && c.rng.Float64() < c.cfg.Rumours:
			c.rumour(n, g, p, false)
		}
		return
	}
	if g.silent[p.Index]++; !listed || g.silent[p.Index] < 3+c.rng.IntN(6) {
		return
	}
	for _, helper := range c.nodes {
		if helper != n && helper != p && c.talk(g.network, n, helper) && c.talk(g.network, helper, p) {
			return
		}
	}
	c.rumour(n, g, p, false)
}

// rumour is memberlist's report on a peer. A reported death is dated by its accusation, as in swim.
func (c *Cluster) rumour(n *Node, g *gossip, of *Node, alive bool) {
	at, p := c.now, g.schedule.Peer(of.Index)
	if !alive {
		at = at.Add(-g.params.AccusedSince())
	}
	if i, ok := n.indices.of(of); ok {
		n.core.Merger().MemberChanged(g.network, i, alive, at)
		c.wakeNode(n, 0)
	}
	if g.listed[of.Index] = alive; !alive {
		n.link(g.network, of.Index).slander = c.now
		p.Die(at)
	}
	g.schedule.Verify(p, false, c.now)
	c.prod(n, g, 0)
}

// talk reports whether two running agents reach each other on a network.
func (c *Cluster) talk(network int, a, b *Node) bool {
	return a.runs() && b.runs() && !c.wire(network, a.Index, b.Index).cut && !c.wire(network, b.Index, a.Index).cut
}

func (n *Node) runs() bool { return n.up && !n.paused }

// lastHeard returns an instant that is no earlier than the last one at which the network could carry a packet from a
// running peer to a node.
func (c *Cluster) lastHeard(network int, n, p *Node) boottime.Instant {
	at := c.now
	if !p.runs() {
		at = p.halted
	}
	for _, w := range [...]*wire{c.wire(network, n.Index, p.Index), c.wire(network, p.Index, n.Index)} {
		if w.cut {
			at = min(at, w.severed)
		}
	}
	return at
}
