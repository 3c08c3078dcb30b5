package gossipsim

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// counter is one life of a node that uses the method [Counting]: its view is the nodes that memberlist lists on enough
// networks. Suspects are listed, because NumMembers counts them.
type counter struct {
	w     *world
	node  int
	warm  bool
	lists []*memberlist.Memberlist

	mu      sync.Mutex
	stopped bool
	listed  []roster.Set // by network
	view    roster.Set
}

func newCounter(w *world, node int, warm bool) *counter {
	return &counter{w: w, node: node, warm: warm, listed: make([]roster.Set, w.cfg.Networks)}
}

func (c *counter) start() error {
	for k := range c.w.cfg.Networks {
		tr, err := c.w.fab.listen(c.w.at(k, c.node))
		if err != nil {
			return errors.Join(err, c.stop(false))
		}
		conf := memberlistConfig(c.w.params, c.w.roster.Name(c.node), k, c.node, tr)
		conf.Events = events{c, k}
		list, err := memberlist.Create(conf)
		if err != nil {
			return errors.Join(err, tr.Shutdown(), c.stop(false))
		}
		c.lists = append(c.lists, list)
	}
	if !c.warm {
		for k, list := range c.lists {
			go c.join(k, list)
		}
	}
	return nil
}

// join asks a few others, like a program that starts.
func (c *counter) join(network int, list *memberlist.Memberlist) {
	for i := 1; i <= 5; i++ {
		peer := (c.node + i*(1+c.w.roster.Size()/7)) % c.w.roster.Size()
		if peer == c.node {
			continue
		}
		if n, err := list.Join([]string{c.w.roster.Name(peer) + "/" + c.w.at(network, peer).String()}); err == nil && n > 0 {
			return
		}
	}
}

func (c *counter) stop(leave bool) error {
	var errs []error
	if leave {
		for _, l := range c.lists {
			errs = append(errs, l.Leave(10*time.Second))
		}
	}
	c.mu.Lock()
	c.stopped = true // memberlist's timers outlive its Shutdown
	c.mu.Unlock()
	for _, l := range c.lists {
		errs = append(errs, l.Shutdown())
	}
	return errors.Join(errs...)
}

func (c *counter) list(network int) (*memberlist.Memberlist, error) { return c.lists[network], nil }

// linkChanged does nothing, because memberlist does not ask the kernel.
func (c *counter) linkChanged(int, bool) {}

// events receives the events of one network. memberlist calls it under its node lock.
type events struct {
	c       *counter
	network int
}

func (e events) NotifyJoin(n *memberlist.Node)  { e.c.changed(e.network, n.Name, true) }
func (e events) NotifyLeave(n *memberlist.Node) { e.c.changed(e.network, n.Name, false) }
func (e events) NotifyUpdate(*memberlist.Node)  {}

func (c *counter) changed(network int, name string, alive bool) {
	peer, ok := c.w.roster.Index(name)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	if alive {
		c.listed[network].Add(peer)
	} else {
		c.listed[network].Remove(peer)
	}
	on := 0
	for k := range c.listed {
		if c.listed[k].Has(peer) {
			on++
		}
	}
	view := c.view
	view.Add(c.node)
	if view.Remove(peer); on >= c.w.cfg.needed() || peer == c.node {
		view.Add(peer)
	}
	if view != c.view {
		c.view = view
		c.w.obs.changed(c.node, view, view, roster.Set{})
	}
}
