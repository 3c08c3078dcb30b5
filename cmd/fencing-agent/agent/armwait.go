package agent

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// armWait tells when people are to hear that the watchdog waits to be armed. The peers take about a round of
// evidence to know of an agent; one that waits for longer may be reset by the countdown of the agent before it.
type armWait struct {
	since boottime.Instant // zero: it does not wait
	told  bool
}

// note takes whether it waits, and reports once a wait that it has become longer than patience.
func (w *armWait) note(now boottime.Instant, waits bool, patience time.Duration) bool {
	switch {
	case !waits:
		*w = armWait{}
	case w.since == 0:
		w.since = now
	case !w.told && now.Sub(w.since) >= patience:
		w.told = true
		return true
	}
	return false
}

// noteArming logs that the watchdog cannot be armed yet.
func (a *Agent) noteArming(now boottime.Instant) {
	// Without a device nothing is ever armed, and nothing counts down.
	waits := a.core.Arming() && a.cfg.Watchdog.Driver == config.DriverDevice
	if a.armWait.note(now, waits, a.cfg.EvidenceMaxAge()) {
		a.log.Warn("watchdog not armed yet: a majority has to answer first that it knows of this agent, or in an equal split a grant has to name this node; "+
			"if an agent before this one crashed, its countdown runs and may reset the node", "waited", a.cfg.EvidenceMaxAge())
	}
}
