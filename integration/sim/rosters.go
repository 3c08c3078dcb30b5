package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// list returns the roster of an epoch as node n knows it.
func (c *Cluster) list(epoch int, n *Node) *roster.Roster {
	members := make([]roster.Member, 0, c.cfg.Nodes)
	for _, k := range c.nodes {
		if len(c.cfg.Lists) == 0 || slices.Contains(c.cfg.Lists[epoch], k.Index) {
			members = append(members, roster.Member{Name: k.Name})
		}
	}
	r, err := roster.Of(uint64(epoch), members, n.Name)
	if err != nil {
		panic(err)
	}
	return r
}

// rostersOf returns the rosters with which the agent of a node begins.
func (c *Cluster) rostersOf(n *Node) (*roster.Roster, *roster.Succession) {
	if len(c.cfg.Lists) == 0 {
		return c.list(1, n), nil
	}
	first := slices.IndexFunc(c.cfg.Lists, func(l []int) bool { return slices.Contains(l, n.Index) })
	s, err := roster.NewSuccession(n.memory, c.list(first, n), func(r *roster.Roster) int { return r.Quorum(0) })
	if err != nil {
		panic(err)
	}
	if n.memory == nil {
		n.memory = &roster.Saved{Fresh: s.Fresh(), Chain: s.Chain()}
	}
	r, err := s.Directory(nil, roster.Member{Name: n.Name})
	if err != nil {
		panic(err)
	}
	return r, s
}

// Tell makes a node read the list of an epoch in its configuration.
func (c *Cluster) Tell(node, epoch int) {
	n := c.nodes[node]
	if !n.up {
		return
	}
	c.trace("%s reads the list of epoch %d", n.Name, epoch)
	if err := n.core.Rosters().Succession().Learn(c.list(epoch, n)); err != nil {
		panic(err)
	}
	c.wakeNode(n, 0)
}

// followRosters carries out a step's effects on the list of members.
func (c *Cluster) followRosters(n *Node, fx *watchdog.Effects) {
	r := &fx.Rosters // it belongs to this step: later actions copy what they need
	if r.Changed {
		c.trace("%s now uses %s", n.Name, describe(n.core.Rosters().Succession()))
	}
	if save := r.Save; save != nil {
		c.during(n, time.Duration(c.rng.Int64N(int64(50*time.Millisecond))), func() { n.memory = save })
		c.during(n, 50*time.Millisecond, func() {
			n.core.Rosters().Succession().Saved(nil)
			c.wakeNode(n, 0)
		})
	}
	if fetch := r.Fetch; !fetch.IsZero() {
		c.during(n, 10*time.Millisecond, func() {
			if err := n.core.Rosters().Succession().Learn(c.list(int(fetch.Epoch), n)); err != nil {
				panic(err)
			}
			c.wakeNode(n, 0)
		})
	}
	if directory := r.Directory; directory != nil {
		c.during(n, 0, func() {
			n.core.Renumber(directory)
			n.fenced = n.core.Deaths().Fenced()
			c.countBy(n, directory)
			c.reopenGossip(n)
			c.wakeNode(n, 0)
		})
	}
}

// indices maps the cluster's nodes to the roster's indices; -1: the node is not on the roster. Names are looked up once
// for each roster, and not for each packet.
type indices []int

func (c *Cluster) indicesOf(r *roster.Roster) indices {
	at := make(indices, len(c.nodes))
	for _, n := range c.nodes {
		at[n.Index] = -1
		if i, ok := r.Index(n.Name); ok {
			at[n.Index] = i
		}
	}
	return at
}

func (x indices) of(n *Node) (index int, ok bool) { return x[n.Index], x[n.Index] >= 0 }

// countBy makes the node use a roster's indices.
func (c *Cluster) countBy(n *Node, r *roster.Roster) {
	n.roster, n.indices, n.ended = r, c.indicesOf(r), make([]watchdog.Death, r.Size())
	c.recount(n)
}

func describe(s *roster.Succession) string {
	text := ""
	for _, r := range s.Chain() {
		text += fmt.Sprintf("%d ", r.Epoch)
	}
	if s.Fresh() {
		text += "fresh"
	}
	return text
}

// sees reports whether the node's statement lists the other one as seen.
func (n *Node) sees(other *Node) bool {
	i, ok := n.indices.of(other)
	return ok && n.said != nil && n.said.RosterDigest == n.roster.Digest && n.said.RosterEpoch == n.roster.Epoch && n.said.Seen.Has(i)
}

// counted returns the nodes that a node counts, as indices of the cluster's nodes.
func (c *Cluster) counted(n *Node) roster.Set {
	view := n.core.View().Counted
	if len(c.cfg.Lists) == 0 {
		return view
	}
	var s roster.Set
	for _, k := range c.nodes {
		if i, ok := n.indices.of(k); ok && view.Has(i) {
			s.Add(k.Index)
		}
	}
	return s
}
