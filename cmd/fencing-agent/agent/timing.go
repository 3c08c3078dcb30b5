package agent

import (
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// timing is the lease's time constants by the configuration.
func (a *Agent) timing() diskquorum.Timing {
	c := a.cfg
	return diskquorum.Timing{
		Heartbeat: c.LUN.HeartbeatInterval, IOTimeout: c.LUN.IOTimeout, MaxAge: c.EvidenceMaxAge(),
		Grant: c.GrantLifetime(), Arbitrate: c.ArbitrationBudget(), Expire: c.GrantExpiry(0),
		PreferenceDelay: c.PreferenceDelay(), Stagger: c.RankStagger(),
		Takeover: c.TakeoverDelay(),
	}
}

// prefersAPI reports whether reaching the API server matters in a tie, to decide the tie or to say which half goes
// first.
func (a *Agent) prefersAPI() bool { return a.cfg.BreaksTiesBy(config.BreakerKubernetes) }
