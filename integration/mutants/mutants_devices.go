package main

import "strings"

// deviceMutants take away what keeps a control plane from being cut off by devices, and what is known before anything is.
func deviceMutants() []mutant {
	const limit, gate, decide, step = "k8s/storm/controlplane.go", "k8s/nodefence/policy.go", "k8s/nodefence/decide.go", "k8s/nodefence/step.go"
	const part, facts = "k8s/fencing/controlplane.go", "k8s/fencing/facts.go"
	list := []mutant{
		one("devices", "the control plane is like any other nodes", limit, "if !m.Part.In {", "if true {"),
		one("devices", "two nodes of the control plane are fenced at one time", limit, "if o.Name != m.Name && o.Part.In && o.Part.Claimed {", "if false {"),
		one("devices", "one is fenced while another is not Ready", limit, "case !o.Ready, o.Silent:", "case false:"),
		one("devices", "one is fenced when another has just come back", limit, "s.now.Sub(o.Since) < s.policy.Settle &&", "false &&"),
		one("devices", "the only node of a control plane is fenced", limit, "if others == 0 {", "if false {"),
		one("devices", "members of etcd are not counted", limit, "m.Part.Etcd && left < quorum", "false"),
		one("devices", "a member that is not Ready is one of the quorum", limit, "o.Name != m.Name && o.Part.EtcdReady && o.Ready {", "o.Name != m.Name && o.Ready {"),
		one("devices", "a word lets a second one be cut off", limit, "	if !m.Part.In {\n", "	if !m.Part.In || word {\n"),
		one("devices", "a node that is gone was none of the control plane", limit, "if len(s.policy.Gone) > 0 {", "if false {"),
		one("devices", "an order passes the control plane", gate, "case d.atRisk() && !(step == Power && d.wasOff()):", "case d.atRisk() && !d.ordered(step) && !(step == Power && d.wasOff()):"),
		one("devices", "the second supply goes with the first", gate, "case d.atRisk() && !(step == Power && d.wasOff()):", "case d.atRisk() && !(step == Power && d.status.Switched):"),
		one("devices", "what may be on again counts as off", gate, "			clear(off)\n", ""),
		one("devices", "it is free and goes on in one write", gate, "was == storm.ControlPlane {", "was == storm.ControlPlane && false {"),
		one("devices", "a Job that was recorded is started in any case", decide, "(d.restarted() || d.atRisk() && !d.wasOff())", "d.restarted()"),
		one("devices", "what is off waits to be switched on", step, "next.role == Main && next.method.Action == fenceconfig.Off {", "next.role == Main {"),
		one("devices", "it begins by an old look at the others", facts, "if f.Object != nil && survey.InControlPlane(node) {", "if false {"),
		one("devices", "what waits claims its node", part, "touched(f) || f.Status.Held() != storm.ControlPlane", "true"),
		one("devices", "what has cut a node off and waits claims nothing", part, "touched(f) || f.Status.Held() != storm.ControlPlane", "f.Status.Held() != storm.ControlPlane"),
		one("devices", "a label of before 1.20 says nothing", part, ", \"node-role.kubernetes.io/master\",", ","),
		one("devices", "a member of etcd makes no node one of the control plane", part, "p.In = p.Etcd || ", "p.In = "),
	}
	for i := range list {
		switch list[i].edits[0].file {
		case gate, decide, step:
			list[i].in = []string{"./k8s/nodefence"}
		case limit, part, facts:
			list[i].in = []string{"./k8s/fencing"}
		}
	}
	return list
}

// possibleMutants take away what is known before anything is cut off, and what lets an executor act.
func possibleMutants() []mutant {
	const plan, decide = "k8s/nodefence/plan.go", "k8s/nodefence/decide.go"
	const agents, unread, outlet, config, method = "k8s/fenceconfig/agents.go", "k8s/fenceconfig/unread.go", "k8s/fenceconfig/outlet.go", "k8s/fenceconfig/config.go", "k8s/fenceconfig/method.go"
	const places, pod = "k8s/fencing/placement.go", "k8s/fencing/job.go"
	const executor, look, clock, rehearse = "cmd/fencing-executor/agent.go", "cmd/fencing-executor/plan.go", "cmd/fencing-executor/clock.go", "cmd/fencing-executor/rehearse.go"
	list := []mutant{
		one("possible", "what is impossible is found when its turn comes", plan, "case plan.off < plan.all:", "case false:"),
		one("possible", "nobody waits for the look at all methods", plan, "case p.off, plan.runs, checks.runs:", "case p.off, checks.runs:"),
		one("possible", "an image of an older version fences nobody", decide, "case j.Finished && e.Role == Plan && j.Unknown:", "case false:"),
		one("possible", "methods of the recovery are not looked at", method, "slices.Concat(n.Isolation, n.Power, n.Recovery) {\n\t\tif !slices.ContainsFunc(all", "slices.Concat(n.Isolation, n.Power) {\n\t\tif !slices.ContainsFunc(all"),
		one("possible", "the look finds nothing missing", look, "\t\tif err != nil {\n\t\t\tmissing", "\t\tif err != nil && false {\n\t\t\tmissing"),
		one("possible", "an agent is given what it does not know", executor, "return !known.Knows(o.Key) })", "return false })"),
		one("possible", "an option that the agent ignores refuses the node", agents, "and is run without it\", m.Agent, key), true, false}", "and is run without it\", m.Agent, key), false, false}"),
		one("possible", "a misspelt option is ignored", agents, "\t\tif i >= 0 {\n\t\t\tadd(", "\t\tif false {\n\t\t\tadd("),
		one("possible", "a misspelt name is passed over", unread, "distance(plain[:n], own) <= 2 {", "false {"),
		one("possible", "an object of a draft is passed over", unread, "if strings.HasPrefix(plain, prefix) {", "if false {"),
		one("possible", "a misspelt key is passed over", unread, "if other != key {", "if false {"),
		one("possible", "a method that nobody lists is passed over", unread, "case key == MethodKey && !used[name]:", "case false:"),
		one("possible", "two ConfigMaps hold for the cluster", config, "there && object != ClusterAlias {", "there && false {"),
		one("possible", "limits under another key are defaults", config, "there && !given {", "there && !given && false {"),
		one("possible", "an address is another one if it is written otherwise", outlet, "key+\"=\"+sameAddress(o.Value)", "key+\"=\"+o.Value"),
		one("possible", "two accounts of one board are two boards", outlet, "return strings.HasPrefix(key, p) })", "return false })"),
		one("possible", "two supplies have one outlet", config, "if m.Action == o.Action && m.outlet() == o.outlet() {", "if false {"),
		one("possible", "an executor goes to a node that is taken back from the dead", places, "slices.Contains(neverTolerated, t.Key)", "false"),
		one("possible", "no executor runs where each node is tainted", places, "if !slices.Contains(always, tolerated) && !slices.Contains(p.tolerations, tolerated) {", "if false {"),
		one("possible", "a quota refuses an executor", pod, ", Resources: resources(),", ","),
		one("possible", "a clock that is behind acts late", clock, "case known && at.Sub(now) > clocks:", "case false:"),
		one("possible", "an agent that reaches no device is in the image", rehearse, "return !r.heard && want.MatchString(r.said)", "return r.way == \"metadata\""),
	}
	for i := range list {
		dir, _, _ := strings.Cut(list[i].edits[0].file[strings.Index(list[i].edits[0].file, "/")+1:], "/")
		switch root, _, _ := strings.Cut(list[i].edits[0].file, "/"); root {
		case "cmd":
			list[i].in = []string{"./cmd/" + dir}
		default:
			list[i].in = []string{"./k8s/" + dir}
		}
	}
	return list
}
