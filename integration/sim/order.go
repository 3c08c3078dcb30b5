package sim

import (
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Order makes one node order another to end.
func (c *Cluster) Order(by, victim int) {
	n, v := c.nodes[by], c.nodes[victim]
	if !n.up {
		return
	}
	c.ids++
	v.ordered = v.ordered || v != n // some node has given an order for this boot
	c.trace("%s orders %s to end", n.Name, v.Name)
	n.core.Deaths().Order(c.ids, watchdog.Word{Node: v.Name, Death: watchdog.Death{Boot: v.boot}})
	c.wakeNode(n, 0)
}

// Lie makes a node order all others to end, at once and repeatedly, whatever it knows.
func (c *Cluster) Lie(by int) {
	c.nodes[by].liar, c.nodes[by].said = true, nil
	for i, n := range c.nodes {
		n.ordered = n.ordered || i != by
	}
}

func (c *Cluster) forge(n *Node, st *netgossip.Statement) *netgossip.Statement {
	lie := *st
	lie.Feeding, lie.View, lie.Facts = true, roster.FullSet(len(c.nodes)), [netgossip.MaxFacts]netgossip.Fact{}
	k := 0
	for _, v := range c.nodes {
		if v != n && k < len(lie.Facts) {
			v.ordered = true
			lie.Facts[k] = netgossip.Fact{Kind: netgossip.FactOrder, Name: netgossip.NameDigest(v.Name), Boot: v.boot, Teller: netgossip.TellerDigest(n.Name)}
			k++
		}
	}
	return &lie
}

func (c *Cluster) noteOrders(n *Node, fx *watchdog.Effects) {
	for _, o := range fx.Obeyed {
		if o.Err != nil {
			c.check.Forbidden[o.Err.Why]++
			c.trace("%s: an order came to nothing: %v", n.Name, o.Err)
		} else {
			c.check.Obeyed++
			c.trace("%s: its order was obeyed", n.Name)
		}
	}
}

// checkOrder compares a node that obeys an order with the truth.
func (c *Cluster) checkOrder(n *Node) {
	if n.core.CondemnedBy() == "" {
		return
	}
	n.obeyed = true
	c.check.ByOrder++
	c.trace("%s: by order of %s", n.Name, n.core.CondemnedBy())
	if !n.ordered {
		c.check.add("%v: %s obeys, and nobody has ordered that this boot of it ends", c.Now(), n.Name)
	}
	if n.disable {
		c.check.add("%v: %s obeys an order under maintenance", c.Now(), n.Name)
	}
	live := 0
	for _, m := range c.nodes {
		if m == n {
			continue
		}
		if m.obeyed && n.counts.Has(m.Index) {
			c.check.add("%v: %s obeys an order, and %s, which has obeyed one, still runs", c.Now(), n.Name, m.Name)
		}
		if !m.judged && c.now.Sub(m.lived) <= c.times(n).Timing.MaxAge+c.cfg.sampling(c.times(n))+slack {
			live++
		}
	}
	if 2*live <= len(c.nodes) {
		c.check.add("%v: %s obeys an order, and %d others of %d have lived lately", c.Now(), n.Name, live, len(c.nodes)-1)
	}
}
