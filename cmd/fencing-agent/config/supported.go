package config

// checkSupported refuses settings that the agent would not carry out. One without
// effect in the given configuration is only warned of.
func checkSupported(c *Config, r *report) {
	if c.Members.Source == SourceController {
		r.problem("members.source", "is not supported by this version", c.Members.Source, "static or kubernetes")
	}
	checkLease(c, r)
	if c.LUN.Mode != LUNTieBreaker && len(c.LUN.Devices) == 0 {
		r.warn("lun.mode", "has no effect: there is no LUN", c.LUN.Mode)
	}
	if c.Watchdog.OnFence != OnFenceExpire && c.Watchdog.Driver == DriverNone {
		r.warn("watchdog.onFence", "has no effect: watchdog.driver is none", c.Watchdog.OnFence)
	}
}
