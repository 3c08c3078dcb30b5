package agent

import (
	"strings"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// startBreaker starts what breaks ties in place of the LUN, which comes with its devices, and of reaching the API
// server. A tie-breaker has one line here, by the terms that its entry in the list of package config gives.
func (a *Agent) startBreaker(background spawn) error {
	start, ok := map[netgossip.Breakers]func(spawn) (tie.Breaker, error){
		netgossip.BreaksByLease: a.startLease,
	}[a.cfg.Terms()]
	if !ok {
		return nil
	}
	b, err := start(background)
	if err != nil {
		return err
	}
	a.core.BreakTiesBy(b)
	return nil
}

// tieBreakerOf is what has broken the tie that a reason speaks of, or would break one. The API's value for it is made
// of the name that it gives itself; a name that the API lacks is none of its values, and is told by the sentence alone.
func tieBreakerOf(c *watchdog.Core, r watchdog.Reason) fencingv1.TieBreaker {
	name := c.TieBreaker(r).Status
	if name == "" {
		return fencingv1.TieBreaker_TIE_BREAKER_NONE
	}
	return fencingv1.TieBreaker(fencingv1.TieBreaker_value["TIE_BREAKER_"+strings.ToUpper(name)])
}

// grant is the latest decision of the tie-breaker; ok is false where none makes decisions that stand somewhere.
func (a *Agent) grant(now boottime.Instant) (g tie.Grant, ok bool) {
	g, ok = a.core.Breaker().Grant(now)
	return g, ok || len(a.lun.keepers) > 0 // a LUN that was not opened yet has none to show
}
