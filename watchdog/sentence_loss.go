package watchdog

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// lossProof is what speaks for a node that has lost the LUN while the others have it (lun.mode: and, lease.md P1, E3).
type lossProof struct {
	since  boottime.Instant // others show that they live with the LUN, at each step since; zero: they do not
	mark   boottime.Instant // all of them have shown it again since
	rounds int              // how often they have
}

// judgeLoss reports whether this node condemns its boot because it alone has lost the LUN. It starves already, and the others have
// it, say so over the networks, and are a majority without this node.
//
// Invariant: not by what this node lacks. If the LUN fails for all, each of them lacks it; the others go on then, and say that they
// lack it, too. Nor by how many have it: those that a hub counts may count nobody but the hub, and live by it.
func (c *Core) judgeLoss(now boottime.Instant) bool {
	l := &c.sentence.loss
	d := &c.fx.Decision
	if !c.cfg.Sentence.LUNLoss || d.Action != Starve || d.Reason != ReasonLUNLost || c.healthy || !c.mayLose(now) {
		*l = lossProof{}
		return false
	}
	switch dated := c.othersHaveLUN(now); {
	case dated == 0:
		*l = lossProof{}
		return false
	case l.since == 0:
		l.since, l.mark = now, now
	case dated > l.mark:
		l.rounds, l.mark = l.rounds+1, now
	}
	// Not shorter than words stay fresh: who was fed by its latest word then, has not starved for so long itself.
	due := max(l.since, c.sentence.quiet).Add(max(c.cfg.Sentence.After, c.cfg.MaxAge))
	if now < due {
		c.sentence.wake(c, due)
		return false
	}
	return l.rounds >= rounds-1
}

// othersHaveLUN is the instant after which all words were composed of a set of at least a quorum, without this node, each
// of which says that it has the LUN, and is fed, and counts all of the set; 0: there is none.
func (c *Core) othersHaveLUN(now boottime.Instant) boottime.Instant {
	var can roster.Set
	for p := range c.view.Counted.All() {
		st, anchor := c.merger.Statement(p)
		put(&can, p, p != c.cfg.Roster.Self && st != nil && st.LUNHealthy && st.Feeding && !st.Stopping && st.Sentence == 0 &&
			now.Sub(anchor) <= c.cfg.MaxAge && st.RosterDigest == c.cfg.Roster.Digest && st.RosterEpoch == c.cfg.Roster.Epoch)
	}
	var found boottime.Instant
	for p := range can.All() {
		st, _ := c.merger.Statement(p)
		set := st.View.And(can)
		if set.Len() < c.rosters.quorum {
			continue
		}
		first := boottime.Never
		for m := range set.All() {
			other, anchor := c.merger.Statement(m)
			if !set.Minus(other.View).IsEmpty() {
				first = 0
				break
			}
			first = min(first, anchor)
		}
		found = max(found, first)
	}
	return found
}
