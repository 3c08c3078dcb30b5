package watchdog

import (
	"time"

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

// apiIdleAge is how long an answer of the API server stands while none is needed, and
// apiFirst how long it stands on when one is, until the first fresh answer has come or is
// overdue. Both are for what this node tells, and what decides which half goes first; no
// verdict rests on them.
const (
	apiIdleAge = 3 * time.Minute
	apiFirst   = 2 * time.Second
)

// apiState is what is known of the API server.
type apiState struct {
	asked     bool
	reachable bool
	at        boottime.Instant
	urgent    boottime.Instant // since when answers may be needed soon; zero: they are not
}

// APIChecked takes the result of a probe of the Kubernetes API that began at the instant.
func (c *Core) APIChecked(reachable bool, at boottime.Instant) {
	c.api.asked, c.api.reachable, c.api.at = true, reachable, at
}

// API is the latest result, and when its probe began.
func (c *Core) API() (reachable bool, at boottime.Instant) { return c.api.reachable, c.api.at }

// followAPI finds out whether the API server should be asked often: it is where
// an equal split is, or may be next. While a majority is safe nobody needs its answer.
func (c *Core) followAPI(now boottime.Instant) {
	n, counted := c.rosters.base().Size(), c.view.Counted.Len()
	urgent := c.outcome != netgossip.Majority || counted < n && counted-n/2 <= max(1, n/10)
	switch {
	case !urgent:
		c.api.urgent = 0
	case c.api.urgent == 0:
		c.api.urgent = now
	}
	c.fx.AskAPI = urgent
}

// until is how long the latest answer counts for a verdict.
func (a *apiState) until(maxAge time.Duration) boottime.Instant {
	if !a.asked {
		return 0
	}
	return a.at.Add(maxAge)
}

// tells reports whether this node says that it reaches the API server.
func (a *apiState) tells(now boottime.Instant, maxAge time.Duration) bool {
	if !a.asked || !a.reachable {
		return false
	}
	lately := now < a.at.Add(apiIdleAge) && (a.urgent == 0 || now < a.urgent.Add(apiFirst))
	return lately || now < a.until(maxAge)
}
