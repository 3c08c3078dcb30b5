package watchdog

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// BreakTiesBy hands over what decides equal splits by its grants, in place of the LUN and of reaching the API
// server. It comes before the first step, and instead of a LUN: one half could be granted by the one and
// the other half by the other.
func (c *Core) BreakTiesBy(b tie.Breaker) {
	c.breaker, c.granted = b, true
	c.cfg.API, c.cfg.LUNLostAsksAPI = false, false
	c.guard.Leases = true
}

// Breaker is what is asked about equal splits: the LUN, unless there is another. Whether a split is decided by
// what it answers, see TieBreaker.
func (c *Core) Breaker() tie.Breaker { return c.breaker }

// TieBreaker names what has broken the tie that a reason speaks of, or would break one; zero: nothing.
func (c *Core) TieBreaker(r Reason) tie.Name {
	api := tie.Name{Setting: "kubernetes", Status: "api"}
	switch {
	case r == ReasonAPIReachable || r == ReasonAPIUnreachable || c.AsksAPI(r):
		return api
	case c.granted:
		return c.breaker.Name()
	case c.cfg.API:
		return api
	default:
		return tie.Name{}
	}
}

// AsksAPI reports whether a tie that is not decided yet, as the reason says, waits for an answer of the API
// server: nothing else decides, or this node cannot use it.
func (c *Core) AsksAPI(r Reason) bool {
	return (r == ReasonSplitPending || r == ReasonSplitUndecided) && c.split.Split == tie.Unavailable
}

// bySlots reports whether the grants that decide a tie are on the LUN. Then what its slots say of a guard
// reaches the half that is granted next, and that half looks there before it counts on a death.
func (c *Core) bySlots() bool { return c.breaker == tie.Breaker(&c.lun) }

// ask is what every tie-breaker is asked.
func (c *Core) ask() tie.Input {
	return tie.Input{
		View: c.view.Counted, Tie: c.outcome == netgossip.EqualSplit && c.united, TieSince: c.tieSince, Quorum: c.rosters.quorum,
		Stop: c.guarding.leaving(), Released: c.stopping && c.release.done, Horizon: c.guard.Horizon,
	}
}

// arbitrate asks the tie-breaker, also while there is no tie: it has to know of the views before.
func (c *Core) arbitrate(now boottime.Instant) {
	c.writeSlot(now)
	c.asked = c.ask()
	out := c.breaker.Step(now, &c.asked)
	c.split = *out
	c.fx.Relay = out.Relay
	c.fx.Wake = min(c.fx.Wake, out.Wake)
	c.doIO()
}
