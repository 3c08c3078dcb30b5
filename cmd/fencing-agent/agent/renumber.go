package agent

import (
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// renumber makes another roster the one by whose indices everything counts, and has the
// gossip follow, one network after the other. What was reported by the old numbers is
// handled first; what still comes is translated by name.
func (a *Agent) renumber(to *roster.Roster) {
	old := a.box.renumber(len(a.cfg.SystemNetworks), to)
	if err := a.handle(&old); err != nil {
		a.box.put(func(b *batch) { b.fatal = err })
	}
	n := roster.Renumber(a.roster, to)
	a.core.Renumber(to)
	if a.members.Grow(to.Size()) {
		a.core.SetBudget(a.cfg.BudgetFor(a.cfg.Watchdog.Timeout, to.Size()))
	}
	prevLeft, deaths := make([]time.Time, to.Size()), make([]watchdog.Death, to.Size())
	for i, k := range n {
		if k >= 0 {
			prevLeft[k], deaths[k] = a.published.left[i], a.deaths.known[i]
		}
	}
	defer a.warnCrowded()
	a.roster, a.published.left, a.deaths.known, a.deaths.fenced = to, prevLeft, deaths, a.core.Fenced()
	a.links.edges = netgossip.NewEdges(len(a.cfg.SystemNetworks), to.Size())
	a.life.work = newBatch(len(a.cfg.SystemNetworks), to.Size())
	a.gossip.Follow(to)
	if a.published.opened {
		a.published.hub.Update(a.nodes(a.core.Available()), nil)
	}
}
