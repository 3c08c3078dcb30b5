package config

// checkSupported refuses settings that the agent would not carry out. A setting without effect in the given
// configuration is only warned about.
func checkSupported(c *Config, r *report) {
	checkController(c, r)
	checkLease(c, r)
	if c.LUN.Mode != LUNTieBreaker && len(c.LUN.Devices) == 0 {
		r.warn("lun.mode", "has no effect: there is no LUN", c.LUN.Mode)
	}
	if first := c.Watchdog.DisableFirst; first != DisableAny && c.Members.Source != SourceController && !c.UsesKubernetes() {
		r.warn("watchdog.disableFirst", "has no effect: nobody shows the annotations of this node's Node", first)
	}
	if c.Watchdog.OnFence != OnFenceExpire && c.Watchdog.Driver == DriverNone {
		r.warn("watchdog.onFence", "has no effect: watchdog.driver is none", c.Watchdog.OnFence)
	}
}

// checkController refuses what needs an API server where the agent talks to none (docs/adr/0049).
func checkController(c *Config, r *report) {
	const at = "members.controller"
	if c.Members.Source != SourceController {
		if len(c.Members.Controller.Founders) > 0 {
			r.warn(at+".founders", "has no effect: members.source is not controller", c.Members.Controller.Founders)
		}
		return
	}
	if c.Members.Controller.Address == "" && r.intact(at, at+".address") {
		r.problem(at+".address", "is missing although members.source is controller", nil, "HOST:PORT of fencing-controller")
	}
	repeated(c.Members.Controller.Founders, func(i, _ int) {
		r.problem(element(at+".founders", i), "is listed twice", c.Members.Controller.Founders[i], "each node once")
	})
	if c.Kubernetes.Kubeconfig != "" {
		r.problem("kubernetes.kubeconfig", "is given although members.source is controller, with which the agent talks to no API server", c.Kubernetes.Kubeconfig, "none, or source: kubernetes")
	}
	if c.Kubernetes.Labels() {
		r.warn("kubernetes.node", "keeps no labels: with members.source: controller the agent writes nothing on its Node", c.Kubernetes.Node)
	}
}
