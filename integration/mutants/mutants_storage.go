package main

// storageMutants take away what keeps a pod on a node that its storage has not given up, or whose volumes nobody vouches for.
func storageMutants() []mutant {
	const cache, judge = "k8s/storagefence/cache.go", "k8s/storagefence/judge.go"
	const runner, facts, provider = "k8s/storagewatch/runner.go", "k8s/storagewatch/facts.go", "k8s/storagewatch/provider.go"
	list := []mutant{
		one("storage", "a node whose health is not known is handled", cache, "return e.health == Unhealthy\n	case Returning", "return e.health != Healthy\n	case Returning"),
		one("storage", "an attempt that began before counts after", cache, "if e == nil || e.run != w.Run {", "if e == nil {"),
		one("storage", "a node is handled again and again", cache, "e.state, e.expires = Fenced, now.Add(c.settings.Expiry)", "e.state, e.next = Offline, now.Add(c.settings.Retry)"),
		one("storage", "attempts have no end", cache, "if !e.next.Before(e.begun.Add(c.settings.Timeout)) {", "if false {"),
		one("storage", "each attempt has all of the time", cache, "w.Deadline = e.begun.Add(c.settings.Timeout)", "w.Deadline = now.Add(c.settings.Timeout)"),
		one("storage", "the wait for a proof is part of the time", cache, "e.state, e.next, e.begun = Waiting, now.Add(c.settings.Poll), time.Time{}\n", "e.state, e.next = Waiting, now.Add(c.settings.Poll)\n		return c.End(began, now, w, Attempt{Failed: true})\n"),
		one("storage", "a taint of an earlier process stays", cache, "e = &entry{state: Quiet, tainted: true}", "e = &entry{state: Quiet}"),
		one("storage", "a pod that has not opted in is deleted", judge, "if !on || p.Ended {", "if !on && len(p.Labels) > 0 || p.Ended {"),
		one("storage", "a volume that may be the only copy is left behind", judge, "case len(ill) > 0:", "case len(ill) > 0 && len(pvs) == 0:"),
		one("storage", "a volume whose health is not known is healthy", judge, "case v.Health != Healthy || v.PV == \"\":", "case v.Health == Unhealthy || v.PV == \"\":"),
		one("storage", "volumes of other drivers are ignored", judge, "case len(others) > 0 && !off:", "case false:"),
		one("storage", "what a neighbour uses is detached", judge, "return !p.Ended && slices.ContainsFunc(", "return false && slices.ContainsFunc("),
		one("storage", "pods are deleted without a proof", runner, "if !f.off && r.o.Cleanup != CleanupDelete {", "if false {"),
		one("storage", "what is attached to a node that is healthy again is detached", runner, "		err := f.stillOffline(ctx)\n", "		var err error\n"),
		one("storage", "what was owed is detached in another outage", runner, "	r.owe(node.Name, nil)\n", ""),
		one("storage", "a node that the storage lists twice is offline if one of them is", provider, "out[i].Health = storagefence.Unknown", "_ = i"),
		one("storage", "a kubelet whose clock is behind is silent", "k8s/storagewatch/nodefences.go", "return now.Sub(was.at) > lasts, nil", "return lease.Spec.RenewTime == nil || now.Sub(lease.Spec.RenewTime.Time) > lasts, nil"),
		one("storage", "a password follows a redirect", provider, "return http.ErrUseLastResponse", "return nil"),
		one("storage", "a volume without an answer has the health that it had before", facts, "		return storagefence.Unknown, err.Error()\n", "		return h, err.Error()\n"),
		one("storage", "a volume without an answer is not asked for again", facts, "		f.unread = append(f.unread, err)\n", ""),
		one("storage", "the storage is not asked again", runner, "case n.Health == storagefence.Unhealthy:\n			return nil", "case true:\n			return nil"),
		one("storage", "a node that cannot be read stops all others", "k8s/storagewatch/nodefences.go", "Unread: err.Error()})\n			continue\n", "Unread: err.Error()})\n			return nil, err\n"),
		one("storage", "one read that hangs takes the time of all nodes", "k8s/storagewatch/nodefences.go", "context.WithTimeout(ctx, nodeTimeout)", "context.WithTimeout(ctx, time.Hour)"),
		one("storage", "a node that cannot be read is healthy again", runner, "		case n.Unread != \"\": // it may be offline as before: what is owed to it stays\n			return fmt.Errorf(\"whether it is still offline is not known: %s\", n.Unread)\n", ""),
		one("storage", "what hangs about other nodes is awaited before a deletion", runner, "can && node != \"\" {", "can && false {"),
		one("storage", "the Node is not read again", runner, "if n == nil || !off(n) {", "if n == nil {"),
		one("storage", "replacements may go back to the node", runner, "		if !kept {\n", "		if false && !kept {\n"),
		one("storage", "attachments of other nodes are deleted", runner, "a.Spec.NodeName != f.node || ", ""),
		one("storage", "attachments of other drivers are deleted", runner, "a.Spec.Attacher != f.o.Rules.Driver || ", ""),
		one("storage", "attachments are released under pods that could not be deleted", runner, "		if v, ok := gone[i]; ok {\n", "		if v := storagefence.Judge(f.o.Rules, f.judged[i], f.off); v.Outcome == storagefence.Deleted {\n"),
		one("storage", "an attachment that could not be deleted is forgotten", runner, "errs, owed = append(errs, fmt.Errorf(\"VolumeAttachment %s: %w\", a.Name, err)), append(owed, *pv)", "errs = append(errs, fmt.Errorf(\"VolumeAttachment %s: %w\", a.Name, err))"),
		{rule: "storage", what: "attachments are deleted where Kubernetes does it", edits: []edit{
			{runner, "if f.off || f.o.DryRun {\n		return nil\n	}\n	var staying", "if f.o.DryRun {\n		return nil\n	}\n	var staying"},
			{facts, "if f.o.Cleanup == CleanupDelete && !f.off {", "if f.o.Cleanup == CleanupDelete {"},
		}},
		one("storage", "a dry run deletes", runner, "	if f.o.DryRun {\n		log.Info", "	if false {\n		log.Info"),
		one("storage", "a taint of a boot that has ended shows that the node is off", facts, "t.Key == recovery.TaintKey && !recovery.Ours(t.Value) {", "t.Key == recovery.TaintKey && t.Value[:3] != \"dis\" {"),
		one("storage", "a disputed taint shows that the node is off", facts, "return fencing.WordOf(n).Fenced != \"\" && ", "return (fencing.WordOf(n) != recovery.Word{}) && "),
		one("storage", "a volume that its driver calls inaccessible is let go", judge, "case v.adverse() != \"\":", "case false:"),
		one("storage", "a status of a later version lets a volume go", judge, "if c.Status != degraded {", "if c.Status == \"Inaccessible\" || c.Status == \"DataLoss\" {"),
		one("storage", "every volume that has lost a copy stays", judge, "if c.Status != degraded {", "if true {"),
		one("storage", "a condition is taken for health", judge, "case v.Health != Healthy || v.PV == \"\":", "case len(v.Conditions) == 0 && (v.Health != Healthy || v.PV == \"\"):"),
		one("storage", "what a claim shows is not read", facts, "out.PV, out.Conditions = claim.Spec.VolumeName, conditions(&claim)", "out.PV = claim.Spec.VolumeName"),
		one("storage", "a request that hangs takes all of the time", facts, "ctx, cancel := context.WithTimeout(ctx, requestTimeout)\n	defer cancel()\n	return r.failure(request(ctx))", "return r.failure(request(ctx))"),
		one("storage", "a pod that was deleted without an answer keeps its attachments", runner, "	owed := unsure\n", "	var owed []string\n"),
		one("storage", "inline volumes stay on the node", facts, "out.Local = local(v)", "out.Local = true"),
		one("storage", "a word that is not known means offline", provider, "	return storagefence.Unknown\n}", "	return storagefence.Unhealthy\n}"),
		one("storage", "an answer about another volume counts", provider, "if v.ID != id {", "if false {"),
	}
	for i := range list {
		list[i].in = []string{"./k8s/storagefence", "./k8s/storagewatch"}
	}
	return list
}
