package main

import "slices"

// recoveryMutants take away what keeps a controller from deleting pods that run.
func recoveryMutants() []mutant {
	list := slices.Concat(recoveryRules(), recoveryDisputes(), recoveryEdges())
	for i := range list {
		switch rule := list[i].rule; rule {
		case "belief", "reconcile", "ownership", "storm", "deaths", "marks":
			list[i].in = []string{"./k8s/" + rule}
		default:
			list[i].in = []string{"./k8s/recovery"}
		}
		list[i].rule = "recovery: " + list[i].rule
	}
	return list
}

// recoveryRules are those of what to believe, and of the machine.
func recoveryRules() []mutant {
	const machine, decide, judge = "k8s/recovery/machine.go", "k8s/recovery/decide.go", "k8s/belief/belief.go"
	const facts = "k8s/recovery/facts.go"
	return []mutant{
		one("belief", "one reporter is enough", judge, "max(2, min(s.MinReporters, size-1))", "1"),
		one("belief", "one is enough in a group that has shrunk", judge, "max(2, min(s.MinReporters, size-1))", "max(1, min(s.MinReporters, size-1))"),
		one("belief", "one is enough in any group of two", judge, "size == 2 && slices.Contains(s.GroupsOfTwo, group)", "size == 2"),
		one("belief", "one is enough in a named group of any size", judge, "size == 2 && slices.Contains(s.GroupsOfTwo, group)", "slices.Contains(s.GroupsOfTwo, group)"),
		one("belief", "words of earlier boots are enough if there are two", judge, "len(v.Reporters)-past-told", "len(v.Reporters)-told"),
		one("belief", "what a full list lacks is taken back", judge, "n.Fresh && !n.Full && slices", "n.Fresh && slices"),
		one("belief", "who does not count does not name it", judge, "		v.Named++\n		switch {\n", "		if n.Fresh {\n			v.Named++\n		}\n		switch {\n"),
		one("belief", "a Node counts as often as it is read", judge, "	nodes = distinct(nodes)\n", ""),
		one("belief", "any boot will do", judge, "return d.Node == node && d.Boot == boot })\n}\n\n// stands", "return d.Node == node })\n}\n\n// stands"),
		one("belief", "the dead one counts", judge, "		if n.Name == q.Node {\n			continue\n		}\n", ""),
		one("belief", "other groups count", judge, "		case n.Group != q.Group:\n			strange++\n", ""),
		one("belief", "a stale Lease counts", judge, "		case !n.Fresh:\n			stale++\n", ""),
		one("belief", "who is accused counts", judge, "		case accusers(n, nodes) >= v.Need:\n", ""),
		one("belief", "Unknown alone is evidence", judge, "case voices > 0 && s.Unknown && q.Unknown:", "case s.Unknown && q.Unknown:"),
		one("belief", "Unknown counts though it is switched off", judge, "case voices > 0 && s.Unknown && q.Unknown:", "case voices > 0 && q.Unknown:"),
		one("belief", "the word of an earlier boot is enough with Unknown", judge, "			case !n.stands(q.Node, q.Boot):\n				past++\n", ""),
		one("belief", "what was taken back is believed", judge, "	case len(v.Withdrawn) > 0:\n", "	case false:\n"),

		one("barrier", "it is set for what is not believed", decide, "	case !believed:\n		m.pace", "	case false:\n		m.pace"),
		one("barrier", "it does not wait for the Lease to run out", decide, "	case !l.over(now):\n		m.state.set(Proven", "	case false:\n		m.state.set(Proven"),
		one("barrier", "the look at the Lease may be old", machine, "m.byLook(r) && now", "m.byLook(r) && r.Kind == DeletePod && now"),
		one("barrier", "it has no deadline", machine, "	if m.byLook(r) {\n", "	if r.Kind == DeletePod {\n"),
		one("barrier", "what was not sent in time is tried again without a pause", machine, "	if a.Outcome == Late {\n		m.slow(now, r)\n		return\n	}\n", ""),
		one("barrier", "a slow API server is asked without a pause", machine, "	if m.late > 1 {\n", "	if false {\n"),
		one("barrier", "nobody is told that the API server is slow", machine, "	m.state.set(p, fmt.Sprintf(\"the API server", "	_, _ = p, fmt.Sprint(fmt.Sprintf(\"the API server"),
		one("barrier", "a Lease that was watched for one renewal counts as run out", decide, "	case !l.over(now):\n		m.state.set(Proven", "	case !l.over(now) && !m.watched(l):\n		m.state.set(Proven"),
		one("barrier", "the Lease is watched without the jitter of its renewals", facts, "l.Duration/4 + l.Duration/100 + renewalDelay", "l.Duration/4 + renewalDelay"),
		one("barrier", "the Lease is watched without the time of a request", facts, "l.Duration/4 + l.Duration/100 + renewalDelay", "l.Duration/4 + l.Duration/100"),
		one("barrier", "the Lease is not watched", decide, "	case !m.watched(l):\n		m.state.set(Proven", "	case false:\n		m.state.set(Proven"),
		one("barrier", "what nobody counts for is rested on", decide, "case m.verdict.Named == 0 && len(m.verdict.Seen) == 0 && m.refused", "case len(m.verdict.Reporters) == 0 && m.refused"),
		one("barrier", "what waits for evictions asks the API server", machine, "now.Before(m.lookBy) && busy", "now.Before(m.lookBy) && busy && false"),
		one("barrier", "what waits for evictions is not looked at", machine, "now.Before(m.lookBy) && busy", "busy"),
		one("barrier", "what waits for a person polls", decide, "m.sleep(now, mediumPause) // until a person has looked", "m.sleep(now, shortPause)"),
		one("barrier", "it does not need a Lease", decide, "	case !l.Exists:\n		m.hold(now, Held, \"the Node has no Lease: nothing shows that its kubelet is silent\")\n	case !l.over(now):\n		m.state.set(Proven", "	case l.Exists && !l.over(now):\n		m.state.set(Proven"),
		one("barrier", "a Lease renewed after the proof does not matter", decide, "	case !m.refused.IsZero():\n		m.hold(now, InDispute", "	case false:\n		m.hold(now, InDispute"),
		one("barrier", "it carries no version of the Node", decide, "	if m.begin(now, l, m.believed) {\n		m.state.set(Proven, \"sets the barrier\")\n		m.todo = []Request{{Kind: SetTaint, UID: m.node.UID, Version: m.node.Version,", "	if m.begin(now, l, m.believed) {\n		m.state.set(Proven, \"sets the barrier\")\n		m.todo = []Request{{Kind: SetTaint, UID: m.node.UID,"),
		one("barrier", "a foreign taint is replaced", machine, "	case n.Tainted && boot == \"\":\n", "	case n.Tainted && boot == \"never\":\n"),
		one("barrier", "dryRun sets it", decide, "	case m.settings.DryRun:\n		m.hold(now, WouldAct, fmt", "	case false:\n		m.hold(now, WouldAct, fmt"),
		one("barrier", "what was known of another Node of this name is kept", machine, "	if n.Boot != m.boot {\n		m.forget()\n		m.uid, m.boot = n.UID, n.Boot\n	}\n", ""),

		one("deletion", "the boot is not compared with the taint's", decide, "	case boot != m.node.Boot:\n", "	case false:\n"),
		one("deletion", "a disputed boot is drained", decide, "	case isDisputed:\n", "	case isDisputed && boot == \"\":\n"),
		one("deletion", "a Lease that is renewed does not stop it", decide, "	if !m.refused.IsZero() || l.fresh(now) {\n", "	if false {\n"),
		one("deletion", "a Lease that has not run out disputes it", decide, "	if !m.refused.IsZero() || l.fresh(now) {\n", "	if !m.refused.IsZero() || l.Exists && !l.over(now) {\n"),
		one("deletion", "a Lease that has not run out by this clock does not matter", decide, "	case !l.over(now):\n		// It is", "	case false:\n		// It is"),
		one("deletion", "a replica that starts does not watch the Lease", decide, "	case !m.watched(l):\n		m.state.set(Draining", "	case false:\n		m.state.set(Draining"),
		one("deletion", "a pod that cannot be deleted ends the round", machine, "			m.struck = m.looked\n		} else {\n			m.todo, m.skip =", "			m.struck = m.looked\n			m.todo = nil\n		} else {\n			m.todo, m.skip ="),
		one("deletion", "pods that cannot be deleted come first again", decide, "return m.refusals[a.UID] - m.refusals[b.UID]", "return 0"),
		one("deletion", "more and more reporters are remembered", decide, "m.reporters = kept[:min(len(kept), most)]", "m.reporters = kept[:max(len(kept), min(0, most))]"),
		one("deletion", "a Lease that has changed and run out does not stop it", decide, "	case m.lease != \"\" && l.Exists && l.Version != m.lease:\n", "	case false:\n"),
		one("deletion", "a reporter that takes it back does not stop it", decide, "	case m.lease != \"\" && len(m.verdict.Withdrawn) > 0:\n", "	case false:\n"),
		one("deletion", "it goes on when nobody believes it", decide, "	case !m.believed:\n		m.hold(now, Held, \"no longer", "	case false:\n		m.hold(now, Held, \"no longer"),
		one("deletion", "the barrier need not settle", decide, "	case now.Sub(m.barrier) < m.settings.Settle:\n", "	case false:\n"),
		one("deletion", "the look at the Lease may be old", machine, "now.Sub(m.looked) > maxAge", "false"),
		one("deletion", "it has no deadline", machine, "	if m.byLook(r) {\n", "	if r.Kind == SetTaint && m.byLook(r) {\n"),
		one("deletion", "the look is dated by its answer", machine, "		m.looked = asked\n", "		m.looked = now\n"),
		one("deletion", "a pod that tolerates the taint is deleted", decide, "		case p.Tolerates:\n		case p.Excluded:", "		case p.Excluded:"),
		one("deletion", "the eviction is not awaited", decide, "		default:\n			waiting = append(waiting, p)", "		default:\n			ready = append(ready, p)"),
		one("deletion", "pods are not read before the Node", machine, "	m.whole = m.state.Tainted\n", "	m.whole = m.state.Tainted && m.pods == nil\n"),
		one("deletion", "a conflict is no reason to read again", machine, "		m.todo = nil\n		m.sleep(now, shortPause)\n", ""),

		one("taint", "it comes off while pods of before are there", decide, "	case left > 0:\n", "	case false:\n"),
		one("taint", "it comes off a node that is not Ready", decide, "ready := m.node.Ready && l.Exists", "ready := l.Exists"),
		one("taint", "it comes off a moment after the last pod", decide, "	case now.Sub(m.returned) < returnSettle:\n", "	case false:\n"),
		one("taint", "a Lease that is renewed is in dispute at once", decide, "now.Sub(m.refused) < disputeAfter || ", ""),
	}
}

// recoveryDisputes are those of a boot that was called dead and was heard.
func recoveryDisputes() []mutant {
	const decide = "k8s/recovery/decide.go"
	return []mutant{
		one("dispute", "it is not noted", decide, "	case !m.refused.IsZero() && m.node.Boot != \"\" && !there:\n", "	case false:\n"),
		one("dispute", "the note is not read", decide, "if m.noted = there; there && m.refused.IsZero() {", "if m.noted = there; false {"),
		one("dispute", "a note of any boot counts", decide, "there := m.node.Note != \"\" && m.node.Note == m.node.Boot", "there := m.node.Note != \"\""),
		one("dispute", "a person cannot take it back", decide, "	if m.noted && !there {", "	if false {"),
		one("dispute", "a note is forgotten when the alarm is over", decide, "		case m.noted:\n			m.hold(now, InDispute, m.why+noteHint)\n		case m.verdict.Named", "		case m.verdict.Named"),
		one("dispute", "a note that is refused holds up the taint", decide, "m.settings.DryRun || skip:", "m.settings.DryRun || skip && false:"),
		one("dispute", "dryRun notes it", decide, "m.settings.DryRun || skip:", "skip:"),
		one("dispute", "a Node that shows no boot loses its note", decide, "m.node.Note != \"\" && m.node.Boot != \"\" && !there", "m.node.Note != \"\" && !there"),
		one("dispute", "a note of another boot stays", decide, "	case wrong && !m.node.Tainted:", "	case wrong && false:"),
		one("dispute", "a kubelet that writes its Node is silent", decide, "	case m.lease != \"\" && m.spoke():\n", "	case false:\n"),
		one("dispute", "Ready that is no longer Unknown does not matter", decide, "m.unknown && m.node.Ready || ", ""),
		one("dispute", "Ready that is written again does not matter", decide, " || m.heartbeat != \"\" && m.node.Heartbeat != \"\" && m.node.Heartbeat != m.heartbeat", ""),
		one("dispute", "what kube-controller-manager writes is the kubelet's", decide, "m.unknown && m.node.Ready ||", "m.unknown ||"),
	}
}

// recoveryEdges are those of what carries the requests out, and of what tells of deaths.
func recoveryEdges() []mutant {
	const index, told, wish = "k8s/reconcile/index.go", "k8s/deaths/deaths.go", "k8s/marks/annotation.go"
	const calls, convert, owners, pace = "k8s/reconcile/calls.go", "k8s/reconcile/convert.go", "k8s/ownership/ownership.go", "k8s/storm/storm.go"
	return []mutant{
		one("reconcile", "a note carries no version", calls, "metadata{r.Version, map", "metadata{\"\", map"),
		one("reconcile", "a Node with a note is not found", "k8s/reconcile/reconciler.go", " && s.Note == \"\"", ""),
		one("reconcile", "the note is not read", convert, "Note: n.Annotations[recovery.NoteKey]", "Note: \"\""),
		one("reconcile", "a replica that starts forgets the storm", "k8s/reconcile/reconciler.go", " || !o.machine.Seen())", ")"),
		one("reconcile", "a Node that is queued is not of the storm", "k8s/reconcile/reconciler.go", "r.machines[other] == nil && r.index.group[other] == group {", "false {"),
		one("reconcile", "a heartbeat is not read", convert, "if !c.LastHeartbeatTime.IsZero() {", "if false {"),
		one("reconcile", "a patch carries no version", calls, "metadata{r.Version, nil}", "metadata{\"\", nil}"),
		one("reconcile", "a write may be sent after its deadline", calls, "		if left <= 0 {\n			return recovery.Reply{Outcome: recovery.Late}\n		}\n", ""),
		one("reconcile", "a write is waited for after its deadline", calls, "timeout = min(timeout, left)", "timeout = min(timeout, requestTimeout)"),
		one("reconcile", "a write that was sent counts as not sent", calls, "tooLate(ctx, err) && !sent.Load()", "tooLate(ctx, err)"),
		one("reconcile", "a write that was not sent counts as a failure", calls, "tooLate(ctx, err) && !sent.Load()", "errors.Is(err, errStale) && !sent.Load()"),
		one("reconcile", "what the rate limiter holds back counts as a failure", calls, " || !errors.As(err, new(*url.Error))", " && !errors.As(err, new(*url.Error))"),
		one("reconcile", "other taints are dropped", calls, "slices.DeleteFunc(slices.Clone(c.node.Spec.Taints), func(t corev1.Taint) bool { return t.Key == recovery.TaintKey })", "[]corev1.Taint(nil)"),
		one("reconcile", "a pod is deleted by name", calls, "client.GracePeriodSeconds(0), client.Preconditions{UID: &uid, ResourceVersion: &p.Version}", "client.GracePeriodSeconds(0), client.Preconditions{UID: &uid}"),
		one("reconcile", "all reporters are read", calls, "return names[:min(n, len(names))]", "return names"),
		one("reconcile", "a reporter's Lease may be as old as it holds", convert, "now.Sub(l.Renewed) <= l.Duration/2", "now.Sub(l.Renewed) <= l.Duration"),
		one("reconcile", "a full list is not known as one", convert, "Full: full}", "Full: full && false}"),
		one("reconcile", "heartbeats wake all that a Node tells of", index, "there && g == group && slices.Equal(x.told[node], list)", "there && g == group && list == nil"),
		one("reconcile", "what is no Node gets a machine", "k8s/reconcile/reconciler.go", "len(r.index.about[name]) == 0 || !r.index.has(name)", "len(r.index.about[name]) == 0"),
		one("reconcile", "a dead node's replica comes first for it", "k8s/reconcile/reconciler.go", "o.Name == r.options.Self || len(r.index.about[o.Node]) == 0", "o.Name != \"\""),
		one("reconcile", "who comes first is waited for though it is dead since", "k8s/reconcile/reconciler.go", "w.begins = earlier(w.begins, w.since.Add(r.delay(name)))", "w.begins = earlier(w.begins, w.begins)"),
		one("reconcile", "an Event of another note is the same one", "k8s/reconcile/report.go", "boot + \"\\x00\" + note", "boot"),
		one("reconcile", "an Event of another death is the same one", "k8s/reconcile/report.go", "boot + \"\\x00\" + note", "note"),
		one("reconcile", "a mirror pod is deleted", convert, "mirrored || slices.ContainsFunc", "mirrored && p == nil || slices.ContainsFunc"),
		one("reconcile", "a toleration for a value is none", convert, "(t.Value == conventional || len(t.Value) > 16)", "false"),
		one("reconcile", "the label excludes nothing", convert, "p.Labels[excludeLabel] == \"true\" || ", ""),
		one("reconcile", "a taint of another effect is its own", convert, "t.Key == recovery.TaintKey && t.Effect == corev1.TaintEffectNoExecute:", "t.Key == recovery.TaintKey && t.Effect != \"\":"),
		one("reconcile", "a Lease that was never renewed counts", convert, "	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {\n		return recovery.Lease{} // says nothing of when\n	}\n	out.Renewed", "	if l.Spec.RenewTime == nil {\n		return out\n	}\n	out.Renewed"),
		one("deaths", "a list without room is not full", told, "len(text) > MostBytes-mostEntry || ", ""),
		one("deaths", "a list with the most entries is not full", told, "&& len(raw) >= Most", "&& len(raw) > Most"),
		one("marks", "a server that forbids it is asked in ten minutes", wish, "pause := refused.Next(err)", "pause := refusedPause"),
		one("marks", "a new wish waits for what was refused", wish, "a.wishes != last.wishes || ", ""),
		one("marks", "what is renewed asks a server that forbids it", wish, "a.want(value, within, false)", "a.want(value, within, true)"),
		one("marks", "a withdrawal waits for what was refused", wish, " || a.value == nil && !last.removal", ""),
		one("ownership", "the order depends on how they are listed", owners, "for _, r := range distinct(replicas) {", "for _, r := range replicas {"),
		one("storm", "all nodes at once", pace, "len(others) < p.settings.Evicting", "len(others) < 1000"),
		one("storm", "a node that is stuck holds up all", pace, " || now.Sub(p.evicting[n]) > patience", ""),
		one("storm", "no limit on the dead", pace, "if g.Dead*100 <= g.Size*percent {", "if true {"),
		one("storm", "deletions are not paced", pace, "		p.tokens--\n", ""),
	}
}
