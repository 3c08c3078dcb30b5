package sim

import (
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// CutOneWay drops everything that from sends to to on the given networks (all if none).
func (c *Cluster) CutOneWay(from, to int, networks ...int) {
	for _, k := range c.networks(networks) {
		c.cut[edge{k, from, to}] = true
	}
}

// Split cuts the groups from each other on the given networks (all if none). Nodes that
// no group names keep their links.
func (c *Cluster) Split(groups [][]int, networks ...int) {
	for i, g := range groups {
		for j, h := range groups {
			if i == j {
				continue
			}
			for _, a := range g {
				for _, b := range h {
					c.CutOneWay(a, b, networks...)
				}
			}
		}
	}
	c.trace("split %v networks %v", groups, c.networks(networks))
}

// Heal restores every link.
func (c *Cluster) Heal() {
	clear(c.cut)
	c.trace("heal")
}

// Mend restores the links between two nodes, both ways: a network that comes back in pieces.
func (c *Cluster) Mend(a, b int) {
	for k := range c.cfg.Networks {
		delete(c.cut, edge{k, a, b})
		delete(c.cut, edge{k, b, a})
	}
	c.trace("%s and %s reach each other again", c.nodes[a].Name, c.nodes[b].Name)
}

// LinkDown takes carrier away from, or gives it back to, one node on one network.
func (c *Cluster) LinkDown(node, network int, down bool) {
	n := c.nodes[node]
	for p := range c.nodes {
		if p != node {
			for _, e := range []edge{{network, node, p}, {network, p, node}} {
				if down {
					c.cut[e] = true
				} else {
					delete(c.cut, e)
				}
			}
		}
	}
	if n.up {
		n.core.Merger().LinkChanged(network, !down)
		c.wakeNode(n, 0)
	}
}

func (c *Cluster) networks(given []int) []int {
	if len(given) > 0 {
		return given
	}
	all := make([]int, len(c.cfg.Networks))
	for i := range all {
		all[i] = i
	}
	return all
}

// scheduleProbe keeps up the evidence: each peer is probed every interval.
func (c *Cluster) scheduleProbe(n *Node, peer int, d time.Duration) {
	c.during(n, d, func() {
		c.probe(n, peer)
		jitter := time.Duration(c.rng.Int64N(int64(c.cfg.Evidence / 10)))
		c.scheduleProbe(n, peer, c.cfg.Evidence+jitter)
	})
}

// probe sends a probe on every network; whatever of it and its answer is not cut arrives.
func (c *Cluster) probe(n *Node, peer int) {
	to := c.nodes[peer]
	if !n.lists(to) {
		return
	}
	for k := range c.cfg.Networks {
		if c.cut[edge{k, n.Index, peer}] {
			continue
		}
		sent := c.now
		c.during(to, c.delay(), func() {
			from, listed := to.roster.Index(n.Name)
			if !listed {
				return
			}
			to.core.Merger().Heard(k, from, c.now)
			st, sees := to.said, to.sees(n)
			if st == nil || c.cut[edge{k, peer, n.Index}] {
				return
			}
			relay := to.relay
			age := c.now.Sub(relay.Anchor)
			c.during(n, c.delay(), func() {
				if relay.Log != 0 {
					relay.Anchor = sent.Add(-age)
				}
				if at, ok := n.roster.Index(to.Name); ok {
					n.core.Merger().Answered(netgossip.Answer{Network: k, Peer: at, SentAt: sent, Statement: st, Sees: sees, Relay: relay})
					c.wakeNode(n, 0)
				}
			})
		})
	}
}

func (c *Cluster) delay() time.Duration {
	return 200*time.Microsecond + time.Duration(c.rng.Int64N(int64(2*time.Millisecond)))
}
