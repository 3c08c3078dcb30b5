package sim

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// CutOneWay drops all packets from one node to the other on the given networks, or on all if none is given.
func (c *Cluster) CutOneWay(from, to int, networks ...int) {
	for _, k := range c.networks(networks) {
		c.sever(c.wire(k, from, to))
	}
}

// Split cuts the groups from each other on the given networks, or on all if none is given. Nodes in none of the groups
// keep their links.
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

// Silence cuts every link, like a failure of the switch behind all networks.
func (c *Cluster) Silence() {
	var alone [][]int
	for i := range c.nodes {
		alone = append(alone, []int{i})
	}
	c.Split(alone)
}

// Heal restores every link.
func (c *Cluster) Heal() {
	for i := range c.wires {
		c.join(&c.wires[i])
	}
	c.trace("heal")
}

// Mend restores the links between two nodes, both ways, so that a network can come back in pieces.
func (c *Cluster) Mend(a, b int) {
	for k := range c.cfg.Networks {
		c.join(c.wire(k, a, b))
		c.join(c.wire(k, b, a))
	}
	c.trace("%s and %s reach each other again", c.nodes[a].Name, c.nodes[b].Name)
}

// LinkDown takes the carrier of one network from one node, or gives it back. Packets under way at that moment are lost.
func (c *Cluster) LinkDown(node, network int, down bool) {
	n := c.nodes[node]
	if down {
		n.unplugged[network] = c.now
	}
	for p := range c.nodes {
		if p != node {
			for _, w := range []*wire{c.wire(network, node, p), c.wire(network, p, node)} {
				if down {
					c.sever(w)
				} else {
					c.join(w)
				}
			}
		}
	}
	if !n.up || n.core.Merger().NetworkUp(network) == !down {
		return
	}
	n.core.Merger().LinkChanged(network, !down)
	if g := n.gossip[network]; !down {
		c.during(n, 0, func() {
			g.began = c.now
			g.schedule.Renew(c.now)
			c.prod(n, g, 0)
		})
	}
	c.wakeNode(n, 0)
}

// wire is one direction between two nodes on a network.
type wire struct {
	cut     bool
	severed boottime.Instant // when the wire was last cut
	joined  boottime.Instant // when it was last restored
}

func (c *Cluster) wire(network, from, to int) *wire {
	return &c.wires[(network*len(c.nodes)+from)*len(c.nodes)+to]
}

func (c *Cluster) sever(w *wire) {
	if !w.cut {
		w.cut, w.severed = true, c.now
	}
}

func (c *Cluster) join(w *wire) {
	if w.cut {
		w.cut, w.joined = false, c.now
	}
}

// Weather describes how a network treats all packets.
type Weather struct {
	Loss float64       // share of packets that do not arrive
	Slow time.Duration // longest random delay of a packet; a later packet may arrive first
}

// SetWeather sets how a network treats packets; the zero value has no faults.
func (c *Cluster) SetWeather(network int, w Weather) {
	if c.weather[network] = w; w == (Weather{}) {
		c.cleared[network] = c.now
	}
	c.trace("network %d: %+v", network, w)
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

// carry takes a packet from one node to another. The receiver also gets the instant at which it was sent.
func (c *Cluster) carry(network int, from, to *Node, deliver func(sent boottime.Instant)) {
	w := &c.weather[network]
	if c.wire(network, from.Index, to.Index).cut || w.Loss > 0 && c.rng.Float64() < w.Loss {
		return
	}
	sent, d := c.now, c.delay()
	if w.Slow > 0 {
		d += time.Duration(c.rng.Int64N(int64(w.Slow)))
	}
	c.during(to, d, func() {
		if max(from.unplugged[network], to.unplugged[network]) < sent {
			deliver(sent)
		}
	})
}

func (c *Cluster) delay() time.Duration {
	return 200*time.Microsecond + time.Duration(c.rng.Int64N(int64(2*time.Millisecond)))
}
