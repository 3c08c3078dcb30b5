package config

import (
	"slices"
)

const notYet = "is not supported by this version"

// checkSupported refuses settings that the agent would not carry out. One without
// effect in the given configuration is only warned of.
func checkSupported(c *Config, r *report) {
	if c.Members.Source == SourceController {
		r.problem("members.source", notYet, c.Members.Source, "static or kubernetes")
	}
	if c.Quorum.LastManStanding {
		r.problem("quorum.lastManStanding", notYet, true, "false")
	}
	unsupported(r, "kubernetes.tieBreak", c.Kubernetes.TieBreak, TieBreakReachability,
		slices.Contains(c.Quorum.TieBreakers, BreakerKubernetes), "kubernetes is no tie-breaker")
	if c.LUN.Mode != LUNTieBreaker && len(c.LUN.Devices) == 0 {
		r.warn("lun.mode", "has no effect: there is no LUN", c.LUN.Mode)
	}
	if c.Watchdog.OnFence != OnFenceExpire && c.Watchdog.Driver == DriverNone {
		r.warn("watchdog.onFence", "has no effect: watchdog.driver is none", c.Watchdog.OnFence)
	}
}

// unsupported refuses every value but one, if the key has an effect at all.
func unsupported[T ~string](r *report, path string, value, only T, matters bool, whyNot string) {
	switch {
	case value == only:
	case matters:
		r.problem(path, notYet, value, "%s", only)
	default:
		r.warn(path, "has no effect: "+whyNot, value)
	}
}
