package main

import "path"

// foundMutants are the guards of what a controller finds out about dead nodes (docs/adr/0069).
func foundMutants() []mutant {
	const (
		findings = "k8s/fencing/findings.go"
		policyGo = "k8s/fencing/policy.go"
		hub      = "cmd/fencing-controller/members/found.go"
		server   = "cmd/fencing-controller/members/server.go"
		agent    = "cmd/fencing-agent/members/found.go"
		source   = "cmd/fencing-agent/members/controller.go"
		toldGo   = "watchdog/told.go"
	)
	list := []mutant{
		one("found", "what agents have found comes back to them", findings, "p.Kind != nodefence.ByPower && p.Kind != nodefence.ByKdump", "false"),
		one("found", "a death is found while the kubelet speaks", findings, "(disputed || !ranOut(f.Spec.NodeName))", "disputed"),
		one("found", "one that is heard waits until its Lease has run out", findings, "!p.Contradicted && (disputed || !ranOut(f.Spec.NodeName))", "(disputed || !ranOut(f.Spec.NodeName))"),
		one("found", "what was found of a boot before is told", findings, " || nodes[f.Spec.NodeName].Boot != p.Boot", ""),
		one("found", "a NodeFence of any name counts", findings, "f.Name != NameOf(f.Spec.NodeName) || ", ""),
		one("found", "a Lease that is not there has run out", findings, "return known && r.listedAt", "return !known || r.listedAt"),
		one("found", "a Lease has run out by the end of a slow look", findings, "r.listedAt.Sub(l.since)", "r.Now().Sub(l.since)"),
		one("found", "who renews a Lease is silent all the same", findings, "if r.lease != text {", "if r.lease == \"\" {"),
		one("found", "a look at Leases that is not allowed any more counts", policyGo, "				r.listed, r.renewals = nil, nil\n", ""),
		one("found", "agents are told of other groups", hub, "there && n.Group == s.group && ", "there && n.Group != \"\" && "),
		one("found", "a node is told of its own death", hub, " && f.Node != s.node", ""),
		one("found", "more is told than agents read", hub, " && len(out) < mostFound", ""),
		one("found", "what was read once is told for ever", hub, "if time.Since(h.foundAt) >= foundLasts {", "if false {"),
		one("found", "what is old and read again is not told", hub, "slices.Equal(h.found, all) && time.Since(h.foundAt) < foundLasts", "slices.Equal(h.found, all)"),
		one("found", "what is taken back has no room", hub, "[]bool{true, false}", "[]bool{false, true}"),
		one("found", "nobody is told at once", hub, "	h.wakeAll(func(*stream) bool { return true })\n", ""),
		one("found", "the same is told over and over", server, "(!t.finds || !slices.Equal(v.found, t.found))", "(!t.finds || len(v.found) > 0 || !slices.Equal(v.found, t.found))"),
		one("found", "an agent that comes is not told that nothing was found", server, "if v.finds && (!t.finds || !slices.Equal(v.found, t.found)) {", "if !slices.Equal(v.found, t.found) {"),
		one("found", "what was not read is told as nothing", server, "if v.finds && (!t.finds", "if (!t.finds"),
		one("found", "what is taken back comes after that", agent, "		for _, t := range ending {\n			<-t.done\n		}\n", "		_ = ending\n"),
		one("found", "any proof can be found", agent, "		default:\n			continue\n", "		default:\n"),
		one("found", "a boot of any length is one", agent, "len(d.GetBoot()) != foundBootSize || ", ""),
		one("found", "boot 0 is one", agent, " || boot == 0 ||", " ||"),
		one("found", "what steers a terminal is logged", agent, " || !plain(f.Node) ||", " ||"),
		one("found", "without end", agent, "[:min(len(m.GetDeaths()), mostFound)]", ""),
		one("found", "an agent tries once", agent, "		if boottime.Wait(ctx, backoff.Next(nil)); ctx.Err() != nil {\n			return\n		}\n", "		if ctx.Err() == nil {\n			return\n		}\n		_, _ = boottime.Wait, backoff\n"),
		one("found", "what is not said any more is told", agent, "			if !stands[k] {\n", "			if false {\n"),
		one("found", "what is taken back is told once", agent, "			if boottime.Wait(ctx, foundAgain); ctx.Err() != nil {\n", "			if true {\n"),
		one("found", "an update without findings ends them", source, "if d := u.GetFound(); d != nil && c.finds", "if d := u.GetFound(); c.finds"),
		one("found", "a controller keeps the loop busy", agent, "		boottime.Wait(ctx, foundLook)\n", ""),
		one("found", "what was taken back is told again", agent, "want[i].Contradicted || !lives[back] {", "true || lives[back] {"),
		one("found", "what was found outlives the stream", source, "			c.finds(nil)\n", ""),
		told("what the teller takes back stands", toldGo, "		v.takeBack(p, w, said.Boot)\n", ""),
		told("what agents have found, or a person says, is taken back", toldGo, "if w.death.Proof.ofDevices() {", "if true {"),
		told("a trial goes on that is taken back", toldGo, "t.Boot == boot && t.Proof.ofDevices() {", "false {"),
		told("the trial of what a person says is taken back", toldGo, " && t.Proof.ofDevices() {", " {"),
		told("what was never told is taken back", toldGo, "if t := &w.trial; t.since != 0 && t.Boot == boot && t.Proof.ofDevices() {", "if true {"),
	}
	for i := range list {
		if list[i].in == nil {
			list[i].in = []string{"./" + path.Dir(list[i].edits[0].file)}
		}
	}
	return list
}
