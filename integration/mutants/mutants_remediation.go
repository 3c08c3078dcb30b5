package main

// remediationMutants take away what makes a remediation a wish, and no more than that.
func remediationMutants() []mutant {
	const decide, adapter, begin = "k8s/remediation/decide.go", "k8s/fencing/remediations.go", "k8s/nodefence/decide.go"
	list := []mutant{
		one("remediation", "a node that is Ready is fenced on a wish", decide, "f.Node.Boot == s.Boot && !f.Node.Ready", "f.Node.Boot == s.Boot"),
		one("remediation", "a wish is about whatever boot", decide, "f.same() && s.Boot != \"\" && f.Node.Boot == s.Boot && !f.Node.Ready", "f.same() && s.Boot != \"\" && !f.Node.Ready"),
		one("remediation", "what has timed out wishes on", decide, "return !f.Deleting && !f.TimedOut && f.Finalizer", "return !f.Deleting && f.Finalizer"),
		one("remediation", "what is being deleted wishes on", decide, "return !f.Deleting && !f.TimedOut && f.Finalizer", "return !f.TimedOut && f.Finalizer"),
		one("remediation", "somebody else's NodeFence is deleted", decide, "f.Fence != nil && f.Fence.Mine && !f.Fence.GivenUp", "f.Fence != nil && !f.Fence.GivenUp"),
		one("remediation", "a NodeFence that has given up is deleted", decide, "&& !f.Fence.GivenUp", ""),
		one("remediation", "the NodeFence of a node that is back is deleted", decide, "!f.Fence.Deleting && !f.Node.Ready && !f.Others:", "!f.Fence.Deleting && !f.Others:"),
		one("remediation", "it goes before its NodeFence", decide, "case f.Deleting && !mine:", "case f.Deleting && (!mine || f.Fence.Deleting):"),
		one("remediation", "a proof of another boot is success", decide, "about := f.Fence != nil && f.Fence.Boot == s.Boot && s.Boot != \"\"", "about := f.Fence != nil"),
		one("remediation", "what the recovery believes of another boot is success", decide, "f.same() && f.Node.Fenced == s.Boot:", "f.same() && f.Node.Fenced != \"\":"),
		one("remediation", "a dispute is success", decide, "f.same() && f.Node.Disputed == s.Boot:", "false:"),
		one("fencing", "a wish is not asked for again before a NodeFence begins", adapter, "	if !remediation.Wishes(f) {\n", "	if !remediation.Wishes(f) && false {\n"),
		one("fencing", "nobody's wish is needed", begin, "f.Wish == \"\" && f.Cluster.ByRemediation:", "false:"),
	}
	for i := range list {
		list[i].in = []string{"./k8s/" + list[i].rule}
		list[i].rule = "remediation: " + list[i].rule
	}
	return list
}
