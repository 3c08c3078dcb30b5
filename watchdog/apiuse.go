package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

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
