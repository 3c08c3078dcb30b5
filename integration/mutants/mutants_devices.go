package main

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
		one("devices", "a Job that was recorded is started in any case", decide, "if !d.held() && !(d.atRisk() && ", "if !d.held() && !(false && "),
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
