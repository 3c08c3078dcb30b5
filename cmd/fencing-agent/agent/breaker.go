package agent

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// startBreaker starts the tie-breaker. Two tie-breakers are started elsewhere: the LUN, with its devices, and reaching
// the API server. Each other tie-breaker has one line here, under the terms of its entry in package config's list.
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

// grant is the latest decision of the tie-breaker; ok is false if no tie-breaker stores decisions.
func (a *Agent) grant(now boottime.Instant) (g tie.Grant, ok bool) {
	g, ok = a.core.Breaker().Grant(now)
	return g, ok || len(a.lun.keepers) > 0 // a LUN that was not opened yet shows no grant
}

// countTie counts how equal splits end, by what decided them.
func (a *Agent) countTie(now boottime.Instant, r watchdog.Reason) {
	by := a.core.Breaker().Name()
	if r == watchdog.ReasonAPIReachable || r == watchdog.ReasonAPIUnreachable {
		by = a.core.TieBreaker(r)
	}
	a.metrics.Tie(now, r, by.Setting)
}
