package main

// policyMutants take away what holds devices back when many nodes fail.
func policyMutants() []mutant {
	const decide, step = "k8s/nodefence/decide.go", "k8s/nodefence/step.go"
	const policy, gate = "k8s/storm/policy.go", "k8s/nodefence/policy.go"
	return []mutant{
		one("fencing", "limits that cannot be read are defaults", "k8s/fencing/policy.go", "	if c.Broken {", "	if false {"),
		one("storm", "Nodes that are not managed are no part of a storm", policy, "{\"all %d Nodes\", func(Member) bool { return true }, false},", "{\"all %d Nodes\", func(m Member) bool { return m.Managed }, false},"),
		one("storm", "a group is no part of the cluster", policy, "return m.Managed && m.Group != \"\" && m.Group == subject.Group }", "return false }"),
		one("storm", "one of two is fenced", policy, "(bad > 1 || bad == 1 && o.alone) &&", "bad > 1 &&"),
		one("storm", "Leases say nothing", policy, "if m.Silent || !m.Ready {", "if !m.Ready {"),
		one("storm", "a storm is over when it ends", policy, "ok && s.now.Sub(h.at) < s.policy.Cooldown {", "ok && false {"),
		one("storm", "a replica that starts knows of no storm", policy, "if s.now.Sub(s.history.since) >= s.policy.Cooldown {", "if true {"),
		one("storm", "a replica that has not looked knows all", policy, "if now.Sub(h.looked) > gap {", "if h.looked.IsZero() {"),
		one("storm", "a clock that is ahead hides a storm", policy, "if m.Since.After(now) {", "if false {"),
		one("storm", "who is being fenced will not be dead", policy, "(m.Dead || m.Off || s.goes(m, subject))", "(m.Dead || m.Off)"),
		one("storm", "what a failed try has switched off is not counted", policy, "(m.Dead || m.Off || s.goes(m, subject))", "(m.Dead || s.goes(m, subject))"),
		one("fencing", "a try that has failed has switched nothing off", "k8s/fencing/policy.go", "		off[fences[i].Spec.NodeName] = s.Switched && s.Step == nodefence.Power\n", ""),
		one("storm", "nodes that began together wait for each other", policy, "return beside.Fencing.IsZero() ||", "return true ||"),
		one("storm", "who is switched already is not counted", policy, "|| o.Switched ||", "||"),
		one("fencing", "a second look in a round does not see what the round has begun", "k8s/fencing/runner.go", "fences.Items)\n	return survey", "fences.Items[:0])\n	return survey"),
		one("fencing", "one look is enough for all writes of a node", "k8s/fencing/runner.go", "if i > 0 && r.Now()", "if i > mostWrites && r.Now()"),
		one("fencing", "Leases that cannot be listed now are none", "k8s/fencing/policy.go", "if !apierrors.IsForbidden(err) {", "if !apierrors.IsForbidden(err) && false {"),
		one("storm", "devices fence more than the recovery may", policy, "return tooManyDead(g, s.policy.MaxDeadPercent)", "return allowed"),
		one("storm", "all nodes are switched at one time", policy, "if len(others) < s.policy.MaxConcurrent {", "if true {"),
		one("storm", "what begins is not counted in the same look", policy, "	m.Fencing = s.now\n", ""),
		one("storm", "a person's word holds for nodes that fail later", policy, "anyway != \"\" && anyway == s.digest", "anyway != \"\""),
		one("nodefence", "power is tried whatever fails beside it", step, "	if a, held := d.gate(Power); held {", "	if a, held := d.gate(Power); held && false {"),
		one("nodefence", "a step begins in a storm", step, "	if a, held := d.gate(d.status.Step); held {", "	if a, held := d.gate(d.status.Step); held && false {"),
		one("nodefence", "a storm that comes before the first method is late", step, "next.role == Main && next.method.Action == fenceconfig.Off {", "next.role == Main && false {"),
		one("nodefence", "power is cut again in a storm", step, "	if a, held := d.gate(s.Step); held {\n		return a\n	}\n	s.Retries++", "	s.Retries++"),
		one("nodefence", "a supply stays off in a storm", gate, "step == Power && s.Switched, ", ""),
		one("nodefence", "an order is for all steps", gate, "step == by ||", "true ||"),
		one("nodefence", "what begins by itself is an order", decide, "Phase: New, StartedAt: f.Now, NotReady: true}", "Phase: New, StartedAt: f.Now, NotReady: true, Ordered: Isolation}"),
		one("nodefence", "a storm is fenced", decide, "	case !f.Policy.Allowed:\n", "	case false:\n"),
	}
}
