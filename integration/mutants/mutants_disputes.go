package main

import "strings"

// disputeMutants take away what withdraws a death for all who rest on it.
func disputeMutants() []mutant {
	const proof, decide, step, plan, crash = "k8s/nodefence/proof.go", "k8s/nodefence/decide.go", "k8s/nodefence/step.go", "k8s/nodefence/plan.go", "k8s/nodefence/crash.go"
	const word, facts, policy, findings, off = "k8s/recovery/facts.go", "k8s/fencing/facts.go", "k8s/fencing/policy.go", "k8s/fencing/findings.go", "k8s/storagewatch/facts.go"
	list := []mutant{
		one("disputes", "a NodeFence does not read that its boot is in dispute", proof, "return d.disputed() || d.seen() ||", "return d.seen() ||"),
		one("disputes", "a NodeFence passes over agents that see its boot", proof, "return d.disputed() || d.seen() ||", "return d.disputed() ||"),
		one("disputes", "one agent is enough to hold a proof up", "k8s/storm/words.go", "if len(by) > 1 || slices.Contains(by, node) {", "if len(by) > 0 {"),
		one("disputes", "a node's own agent says nothing of it", "k8s/storm/words.go", "if len(by) > 1 || slices.Contains(by, node) {", "if len(by) > 1 {"),
		one("disputes", "what a node's own agent said counts for long", "k8s/storm/words.go", " && s.now.Sub(was.at) <= ownLasts {", " {"),
		one("disputes", "another boot is seen", "k8s/storm/words.go", "if boot == s.members[name].Boot && name != m.Name {", "if name != m.Name {"),
		one("disputes", "a boot that agents see is believed dead", "k8s/belief/belief.go", "if v.Believed && len(q.Seen) > 0 {", "if false {"),
		one("disputes", "agents that go on seeing a boot dispute nothing", "k8s/recovery/decide.go", "case !m.sighted.IsZero() && now.Sub(m.sighted) > seenLong:", "case false:"),
		one("disputes", "what agents saw a moment ago disputes for good", "k8s/recovery/decide.go", "now.Sub(m.sighted) > seenLong:", "now.Sub(m.sighted) >= 0:"),
		one("disputes", "nobody asks what agents see", "k8s/fencing/facts.go", "		f.Node.Seen = r.Seen(node, f.Node.Boot)\n", ""),
		one("disputes", "what agents have proven is not doubted", proof, "case p == nil || p.Contradicted ||", "case p == nil || p.Kind == ByAgents || p.Contradicted ||"),
		one("disputes", "agents' proof needs no silent kubelet", proof, "d.proven() && d.Node.Silent", "d.proven() && (d.Node.Silent || d.status.Proof.Kind == ByAgents)"),
		one("disputes", "what was not isolated stays so", proof, "if s.Step == Isolation && s.Phase == Done && len(s.Jobs) == 0 {", "if false {"),
		one("disputes", "devices that lie are trusted until the kubelet writes", proof, "p.Boot == d.status.Boot && d.withdrawn()", "p.Contradicted"),
		one("disputes", "off is a proof while agents see the boot", step, "	case off && d.seen():\n		return d.offButSeen()\n", ""),
		one("disputes", "off is a proof of a boot in dispute", step, "case off && !d.disputed():", "case off:"),
		one("disputes", "a boot in dispute waits for its storage", plan, " && !d.withdrawn() {", " {"),
		one("disputes", "a crash kernel speaks for a boot in dispute", crash, " && !f.Node.disputed()", ""),
		one("disputes", "a crash kernel speaks for a boot that is seen", crash, "!d.seen() && ", ""),
		one("disputes", "a Job that gives storage back starts in a dispute", decide, " && !(e.givesStorage() && !d.unfenceable())", ""),
		one("disputes", "the annotation disputes nothing", word, "case note == boot, is(values", "case is(values"),
		one("disputes", "a taint in dispute disputes nothing", word, "is(values, Disputed(boot)), is(others", "is(others"),
		one("disputes", "the annotation of another boot disputes", word, "case note == boot,", "case note != \"\","),
		one("disputes", "a death in dispute lifts the limits", policy, "n.Disputed != n.Boot && ", ""),
		one("disputes", "a death in dispute is told to agents", findings, "(disputed || !ranOut(f.Spec.NodeName))", "(disputed && false || !ranOut(f.Spec.NodeName))"),
		one("disputes", "a Node that is Ready is off", off, " && !ready(n)", ""),
		one("disputes", "the annotation withdraws no pod", off, "fencing.WordOf(n).Fenced != \"\"", "fencing.WordOf(&corev1.Node{Spec: n.Spec, Status: n.Status}).Fenced != \"\""),
		one("disputes", "where the note is refused nothing says it", "k8s/recovery/decide.go", "if !m.unnoted && now.Sub(m.refused)", "if now.Sub(m.refused)"),
		one("disputes", "another boot that runs is cut", "k8s/nodefence/policy.go", "	case d.restarted():\n", "	case false:\n"),
		one("disputes", "agents do not show that another boot runs", "k8s/nodefence/policy.go", "(!d.Node.Silent || len(d.Node.Seen) > 0)", "!d.Node.Silent"),
		one("disputes", "a NodeFence whose devices lie goes with its remediation", "k8s/fencing/remediations.go", "f.Fence.Lies, f.Fence.Proven = spoken && devices,", "f.Fence.Lies, f.Fence.Proven = false,"),
		one("disputes", "what a later version has noted in a Job is dropped", "k8s/fencing/unknown.go", "now[i] = carry(was[j], known[j], one)", "now[i] = one"),
		one("disputes", "nobody speaks of a member that is not shown its Node", "cmd/fencing-agent/agent/kubesightings.go", "		case st.Unheard:\n", "		case false:\n"),
		one("disputes", "a controller keeps no boots that are seen", "cmd/fencing-controller/members/sightings.go", ", Sees: r.GetSees(),", ","),
		one("clocks", "storage is given back by the clock that is ahead", "k8s/nodefence/storage.go", "if len(s.Storages) > 0 && d.Returning < ReturnWait {", "if len(s.Storages) > 0 && d.Now.Before(s.Storages[0].Returned.Add(ReturnWait)) {"),
		one("clocks", "a look at another time counts", "k8s/fencing/facts.go", "!known || was.lease != text || was.at.After(now) {\n		if r.returns == nil {", "!known {\n		if r.returns == nil {"),
		one("clocks", "the time that is vouched for ends by another clock", "k8s/storagewatch/nodefences.go", "p.waited(name, string(fence.UID), &o) && ", ""),
		one("clocks", "a late Job is not waited for", decide, "case d.Now.After(e.NotAfter.Add(slack)):", "case d.Now.After(e.NotAfter):"),
		one("clocks", "the next try does not wait for wrong clocks", decide, "if end := e.NotAfter.Add(slack); e.Unclear", "if end := e.NotAfter; e.Unclear"),
	}
	for i := range list {
		switch file := list[i].edits[0].file; {
		case file == decide && list[i].rule == "disputes":
			list[i].in = []string{"./k8s/fencing"}
		case file == word:
			list[i].in = []string{"./k8s/recovery", "./k8s/fencing"}
		default:
			list[i].in = []string{"./" + file[:strings.LastIndex(file, "/")]}
		}
	}
	return list
}
