package agent

import (
	"context"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	// rebuildPause lies between the rebuilding of two networks, so that the evidence of one
	// is there again before that of the next one stops.
	rebuildPause = time.Second
	rebuildRetry = time.Second // after one could not be rebuilt
)

// spoken is a statement and the roster by which its sets count.
type spoken struct {
	said   *netgossip.Statement
	roster *roster.Roster
	before *spoken // of the statement before; its own before is nil
}

// speak replaces the statement.
func (a *Agent) speak(st *netgossip.Statement) {
	next := &spoken{said: st, roster: a.roster}
	if last := a.said.Load(); last != nil {
		next.before = &spoken{said: last.said, roster: last.roster}
	}
	a.said.Store(next)
}

func (s *spoken) statement() *netgossip.Statement {
	if s == nil {
		return nil
	}
	return s.said
}

// sees reports whether a statement of this node has a node among the seen, for an instance that
// counts by another roster (swim.Config.Sees).
func (a *Agent) sees(st *netgossip.Statement, node string) bool {
	s := a.said.Load()
	if s != nil && s.said != st {
		s = s.before // it was replaced while the reply was being made
	}
	if s == nil || s.said != st {
		return false
	}
	i, ok := s.roster.Index(node)
	return ok && st.Seen.Has(i)
}

// rebuildGossip makes the gossip of one network after the other again when the roster has
// changed, without leaving. Peers notice nothing, if it takes less than a suspicion, and the
// evidence from before stays valid for D_max.
func (a *Agent) rebuildGossip(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-a.rebuild:
			for i := range a.nets {
				said := ""
				for {
					err := a.rebuildNetwork(ctx, i, r)
					if err == nil {
						break
					}
					if said != err.Error() {
						said = err.Error()
						a.log.Error("the gossip of a network cannot follow the list of members, and is silent until it can",
							"network", a.nets[i].name, "error", err, "retry", rebuildRetry)
					}
					if wait(ctx, rebuildRetry); ctx.Err() != nil {
						return
					}
				}
				wait(ctx, rebuildPause)
			}
		}
	}
}

// rebuildNetwork makes the gossip of one network again, unless everything has been stopped.
func (a *Agent) rebuildNetwork(ctx context.Context, i int, r *roster.Roster) error {
	if !a.rebuilding.TryLock() {
		return nil
	}
	defer a.rebuilding.Unlock()
	if ctx.Err() != nil {
		return nil
	}
	n, sn := a.nets[i], a.cfg.SystemNetworks[i]
	limit, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if err := n.now().swim.Stop(limit, false); err != nil {
		a.log.Warn("gossip did not stop in time for the changed list of members", "network", n.name, "error", err)
	}
	g, err := a.newGossip(i, sn, r)
	if err == nil {
		if err = g.swim.Start(); err != nil {
			_ = g.swim.Stop(limit, false) // the error of the start is the one that counts
		}
	}
	if err != nil {
		return err
	}
	n.present.Store(g)
	g.swim.Announce()
	a.box.put(func(b *batch) { b.rebuilt = true })
	a.showTuning(n.name, g.tuning)
	return nil
}
