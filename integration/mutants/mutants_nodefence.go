package main

// nodefenceMutants take away what keeps a node from being switched at the wrong moment, and what makes off a proof.
func nodefenceMutants() []mutant {
	const plan, decide, step = "k8s/nodefence/plan.go", "k8s/nodefence/decide.go", "k8s/nodefence/step.go"
	const config, method = "k8s/fenceconfig/config.go", "k8s/fenceconfig/method.go"
	const proof = "k8s/nodefence/proof.go"
	const facts, pod = "k8s/fencing/facts.go", "k8s/fencing/job.go"
	const executor, judge = "cmd/fencing-executor/agent.go", "k8s/belief/belief.go"
	list := []mutant{
		{rule: "nodefence", what: "a Job is started that was not recorded", edits: []edit{
			{decide, "case j == nil || j.UID != e.UID:", "case j == nil:"},
			{decide, "case e != nil && e.UID == j.UID && e.State == Recorded && j.Suspended:", "case e != nil && e.State == Recorded && j.Suspended:"},
			{decide, "case (e == nil || e.UID != j.UID) && j.Suspended", "case e == nil && j.Suspended"},
		}},
		one("nodefence", "a try begins while Jobs of the one before run", decide, "if e.State == Recorded || e.State == Failed && there {", "if e.State == Failed && there && false {"),
		one("nodefence", "what failed without a word is over at once", decide, "e.Unclear && d.Now.Before(end) && end.After(until)", "e.Unclear && end.After(until) && false"),
		one("nodefence", "storage is given back to the boot that was fenced", proof, "return !d.status.Isolated || another ||", "return true || another ||"),
		one("nodefence", "a boot that is back keeps being isolated by nobody", step, "if s.Isolated && d.Node.Boot == s.Boot {", "if false {"),
		one("nodefence", "storage comes back without a confirmed off", plan, "if s.Isolated && firstOn < len(power) && confirmed(power[:firstOn]) &&", "if s.Isolated && firstOn < len(power) &&"),
		one("nodefence", "an off that was not confirmed is a proof", plan, "func(m fenceconfig.Method) bool { return !m.Confirm })", "func(m fenceconfig.Method) bool { return m.Name == \"\" })"),
		one("nodefence", "one supply that is off is enough", plan, "checks.all > 0 && checks.off == checks.all", "checks.off > 0"),
		one("nodefence", "a proof is made before the last off", plan, "			if off {\n				p.cut = false\n			}\n", ""),
		one("nodefence", "supplies are not asked together after the last off", plan, "if firstOn > 1 && confirmed(power[:firstOn]) {", "if false {"),
		one("nodefence", "supplies that were off already are asked once", plan, "if p.off && again.all > 0 {", "if false {"),
		one("nodefence", "one supply that is on again is off", plan, "case it.role == Again && again.off < again.all:", "case it.role == Again && again.off == 0:"),
		one("nodefence", "a proof is made while supplies are asked together", plan, "		case it.role == Again && again.runs:\n			p.next, p.cut = again.next, false\n", "		case it.role == Again && again.runs:\n			p.next = again.next\n"),
		one("nodefence", "storage is given back while the kubelet is heard", proof, "d.proven() && d.Node.Silent", "d.proven()"),
		one("nodefence", "where a Job runs is noted when it has ended", decide, "case j.Node != \"\" && j.Node != e.Node:", "case j.Finished && j.Node != \"\" && j.Node != e.Node:"),
		one("fencing", "a Lease whose clock is wrong is silent", facts, "return now.Sub(was.at) > lasts, nil", "return lease.Spec.RenewTime == nil || now.Sub(lease.Spec.RenewTime.Time) > lasts, nil"),
		one("nodefence", "what a device said is not doubted", proof, "case p == nil || p.Contradicted ||", "case p == nil || p.Kind != ByAgents || p.Contradicted ||"),
		one("nodefence", "what a device said is doubted only if the node calls itself Ready", proof, "p.Contradicted || !d.same() ||", "p.Contradicted || !d.same() || !d.Node.Ready ||"),
		one("nodefence", "a Job of another replica is taken away while it runs", step, "!j.Suspended && !d.Now.After(end) {", "false && !d.Now.After(end) {"),
		one("nodefence", "a Job that is complete needs no word of its executor", decide, "e.Confirm && !j.Off:", "false:"),
		one("fencing", "whatever ended well has said off", facts, "code == 0 && r.OK && r.Status == fenceconfig.Off", "code == 0"),
		one("fencing", "somebody else's pod speaks for a Job", facts, "if !metav1.IsControlledBy(p, j) {", "if !metav1.IsControlledBy(p, j) && p.Labels[batchv1.JobNameLabel] != j.Name {"),
		one("fencing", "a container beside the executor speaks for it", facts, "t != nil && s.Name == executorContainer {", "t != nil {"),
		one("fencing", "a field that the schema lacks is dropped", "k8s/fencing/schema.go", "client.FieldValidation(metav1.FieldValidationStrict)", "client.FieldValidation(metav1.FieldValidationWarn)"),
		one("fencing", "a node in maintenance is fenced: the agent's annotation", facts, "\"fencing-agent.io/disable\", ", ""),
		one("fencing", "a node in maintenance is fenced: node-manager's annotation", facts, "\"node-manager.deckhouse.io/fencing-disable\", ", ""),
		one("fencing", "a node in maintenance is fenced: its update is approved", facts, "\"update.node.deckhouse.io/approved\", ", ""),
		one("fencing", "a node in maintenance is fenced: its disruption is approved", facts, ", \"update.node.deckhouse.io/disruption-approved\"", ""),
		one("fencing", "a node in maintenance is fenced: the autoscaler removes it", facts, "out.Kept = out.Kept || t.Key == autoscalerRemoval", "_ = t"),
		one("fencing", "a node in maintenance is fenced: it is being deleted", facts, "Kept: n.DeletionTimestamp != nil,", ""),
		one("fencing", "maintenance is asked about when a step is planned, and not before each Job", step, "	case d.held():\n		return d.idle()\n	case d.dumping", "	case d.dumping"),
		one("fencing", "a Job that was recorded starts in maintenance", decide, "if !d.held() && !(off", "if !(off"),
		one("fencing", "a node fences itself", pod, "NodeSelectorTerms: []corev1.NodeSelectorTerm{notOn(fenced)}", "NodeSelectorTerms: []corev1.NodeSelectorTerm{notOn()}"),
		one("fencing", "nodes on which a Job failed are forbidden", pod, "	if len(failed) > 0 {\n", "	a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0] = notOn(append([]string{fenced}, failed...)...)\n	if len(failed) > 0 {\n"),
		one("nodefence", "a pause stops nothing", decide, "return d.Object.Spec.Paused || d.Node.Kept }", "return false }"),
		one("nodefence", "a supply that was switched off stays so", plan, "		if s.Switched {\n", "		if false {\n"),
		one("nodefence", "a Node that is gone gives storage back", step, "	case !d.unfenceable():\n		return d.rest(time.Time{}, \"the storage of a boot", "	case false:\n		return d.rest(time.Time{}, \"the storage of a boot"),
		one("fenceconfig", "methods keep the order in which they are listed", config, "return rank(a) - rank(b)", "return 0"),
		one("fenceconfig", "an outlet belongs to two nodes", config, "	c.shared()\n", ""),
		one("fenceconfig", "limits that cannot be read are no problem of all nodes", config, "c.Broken = slices.ContainsFunc(c.Problems, func(p Problem) bool { return !p.Warning })", "c.Broken = false"),
		one("fenceconfig", "a plug that is not there is off", method, "			case key == \"missing_as_off\":\n", "			case key == \"\":\n"),
		one("fenceconfig", "an action has a default", method, "	case line == 0:\n		own.add", "	case line < 0:\n		own.add"),
		one("fenceconfig", "a supply need not go off", config, "if m.Action == Off && !m.MustSuccess {", "if false {"),
		one("fenceconfig", "an on needs no off", config, "if m.Action == On && !slices.ContainsFunc(n.Power", "if false && !slices.ContainsFunc(n.Power"),
		one("executor", "off is not confirmed", executor, "if a.method.Action == fenceconfig.Off && a.method.Confirm {", "if false {"),
		one("executor", "it begins however late it is", "cmd/fencing-executor/clock.go", "switch late := now.Sub(notAfter); {", "switch late := now.Sub(notAfter) - time.Hour; {"),
		one("executor", "options that the agent does not know are given to it", executor, "	for _, p := range known.Check(m) {\n		if !p.Warning {", "	for _, p := range known.Check(m) {\n		if !p.Warning && false {"),
		one("executor", "secrets are shown", executor, "text = strings.ReplaceAll(text, v, \"***\")", "_ = v"),
		one("belief", "a confirmed off outweighs who takes it back", judge, "	switch {\n	case len(v.Withdrawn) > 0:\n", "	switch {\n	case q.Power:\n		v.Believed, v.By = true, \"power\"\n	case len(v.Withdrawn) > 0:\n"),
		one("belief", "power is believed for a boot that nobody knows", judge, "if q.Boot != \"\" && q.Power {", "if q.Power {"),
	}
	list = append(list, policyMutants()...)
	for i := range list {
		switch rule := list[i].rule; rule {
		case "executor":
			list[i].in = []string{"./cmd/fencing-executor"}
		default:
			list[i].in = []string{"./k8s/" + rule}
		}
		list[i].rule = "power: " + list[i].rule
	}
	return list
}
