package config

// checkSupported refuses settings that the agent would not carry out. One without
// effect in the given configuration is only warned of.
func checkSupported(c *Config, r *report) {
	checkController(c, r)
	checkPriority(c, r)
	checkLease(c, r)
	if c.LUN.Mode != LUNTieBreaker && len(c.LUN.Devices) == 0 {
		r.warn("lun.mode", "has no effect: there is no LUN", c.LUN.Mode)
	}
	if c.Watchdog.OnFence != OnFenceExpire && c.Watchdog.Driver == DriverNone {
		r.warn("watchdog.onFence", "has no effect: watchdog.driver is none", c.Watchdog.OnFence)
	}
}

// checkPriority refuses an order of the sources of maintenance that is none (docs/adr/0060).
func checkPriority(c *Config, r *report) {
	const at = "watchdog.disablePriority"
	p := c.Watchdog.DisablePriority
	for i := range p {
		if !r.intact(element(at, i)) {
			return
		}
	}
	if len(p) == 0 || !r.intact(at) {
		return
	}
	if len(p) != 2 || p[0] == p[1] {
		r.problem(at, "does not name both sources, each once", p, "[file, controller], [controller, file], or [] for any")
	} else if c.Members.Source != SourceController && !c.UsesKubernetes() {
		r.warn(at, "has no effect: nobody shows the annotations of this node's Node", p)
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
		r.problem("kubernetes.kubeconfig", "is given although members.source is controller: the agent talks to no API server", c.Kubernetes.Kubeconfig, "none, or source: kubernetes")
	}
	if r.given("kubernetes.labels") && c.Kubernetes.Labels {
		r.warn("kubernetes.labels", "has no effect: with members.source: controller the agent writes nothing on its Node", c.Kubernetes.Labels)
	}
}
