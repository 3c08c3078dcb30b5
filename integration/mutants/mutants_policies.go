package main

// groupPolicyMutants take away what keeps the policy of a group a matter of words, and what keeps two replicas from writing each other's words away.
func groupPolicyMutants() []mutant {
	const pure, status = "k8s/grouppolicy/policy.go", "k8s/grouppolicy/status.go"
	const agent, stream = "cmd/fencing-agent/members/policy.go", "cmd/fencing-agent/members/stream.go"
	const policies, server = "cmd/fencing-controller/members/policies.go", "cmd/fencing-controller/members/server.go"
	const groups = "cmd/fencing-controller/members/groups.go"
	list := []mutant{
		one("policies", "an agent takes a policy up", agent, "	c.differs.Store(&differs)\n", "	c.differs.Store(&differs)\n	c.cfg.OnQuorumLoss = config.OnQuorumLoss(c.policy.want.OnQuorumLoss)\n"),
		one("policies", "an agent says that it runs with what it is shown", stream, "policyMessage(runs(c.cfg))", "policyMessage(c.policy.want)"),
		one("policies", "a policy of old looks new", agent, "	if old < policyOld {", "	if old < policyOld*1000 {"),
		one("policies", "a policy without an age has that of the one before", "cmd/fencing-agent/members/controller.go", "		c.readAt.Store(0)\n", ""),
		one("policies", "a controller that lies fills the log", agent, "now.Sub(c.policy.saidAt) < controllerLines {", "false {"),
		one("policies", "a policy outlives the controller that knew of one", stream, "if !answered && u.GetPolicy() == nil {", "if false {"),
		one("policies", "no end of a text is logged", pure, "fmt.Sprintf(\"%.*q\", mostText, v)", "fmt.Sprintf(\"%.*q\", 100*mostText, v)"),
		one("policies", "what is not said differs", pure, "if l.a != \"\" && l.b != \"\" && l.a != l.b && !idle {", "if l.a != l.b && !idle {"),
		one("policies", "the timeout is not compared", pure, "idle := l.key == \"watchdog.timeout\" && (want", "idle := l.key == \"watchdog.timeout\" || (want"),
		one("policies", "the last FencingGroup counts", pure, "		if first, there := wanted[o.Group()]; there {", "		if first, there := wanted[o.Group()]; there && false {"),
		one("policies", "a replica forgets what agents of the other one have told", status, "	for _, t := range old.Agents {", "	for _, t := range old.Agents[:0] {"),
		one("policies", "an agent that was set back to an older version keeps its word", status, "if delete(entries, node); run != nil {", "if run != nil {"),
		one("policies", "a Node that is gone keeps its entry", status, "return !slices.Contains(nodes, node) })", "return false })"),
		one("policies", "a replica that has not read the Nodes writes", policies, "	if !synced {", "	if !synced && false {"),
		one("policies", "a stream on which nothing was told yet counts", policies, "if s.group == group && s.runs {", "if s.group == group {"),
		one("policies", "a status is written each time", policies, "next == nil || next.Equal(&g.Status)", "next == nil"),
		one("policies", "what cannot be read is taken for nothing", policies, "		p.say(\"read\", \"cannot read the policies of groups; the last ones stand\", err.Error())\n		return\n",
			"		p.say(\"read\", \"cannot read the policies of groups; the last ones stand\", err.Error())\n		groups = nil\n"),
		one("policies", "policies that were deleted with their definition stand", groups, "		case notServed(err):\n", "		case false:\n"),
		one("policies", "a misspelt group agrees", policies, "	if len(nodes) == 0 {", "	if false {"),
		one("policies", "agents tell essays", server, "len(r.GetRunning().GetOnQuorumLoss()) > longestWord {", "false {"),
	}
	for i := range list {
		switch list[i].edits[0].file {
		case agent, stream, "cmd/fencing-agent/members/controller.go":
			list[i].in = []string{"./cmd/fencing-agent/members"}
		case pure, status:
			list[i].in = []string{"./k8s/grouppolicy"}
		default:
			list[i].in = []string{"./cmd/fencing-controller/members"}
		}
	}
	return list
}
