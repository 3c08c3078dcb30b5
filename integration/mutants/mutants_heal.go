package main

// healMutants are the guards of a heal that reaches a granted half member by member.
func healMutants() []mutant {
	const (
		rejoinGo = "diskquorum/rejoin.go"
		relayGo  = "diskquorum/relay.go"
		kubeGo   = "k8s/leasequorum/rejoin.go"
		planGo   = "k8s/leasequorum/schedule.go"
		coreGo   = "watchdog/core.go"
	)
	in := func(pkg string, m mutant) mutant {
		m.in = []string{pkg}
		return m
	}
	const sim, kube, glue, agent = "./integration/sim", "./k8s/leasequorum", "./watchdog", "./cmd/fencing-agent/agent"
	const (
		hubGo    = "api/publish/hub.go"
		statusGo = "cmd/fencing-agent/picture/verdict.go"
		serveGo  = "cmd/fencing-agent/agent/publish.go"
		guardGo  = "cmd/fencing-agent/agent/guard.go"
	)
	return []mutant{
		in(sim, one("L14", "a partner that has a majority ends the grant", leaseGo, "max(a.memberEvidence(h, view), a.rejoined(h, view))", "a.memberEvidence(h, view)")),
		one("L14", "a majority without this node counts", rejoinGo, "!st.View.Has(a.roster.Self) || ", ""),
		one("L14", "any view with this node in it counts", rejoinGo, " || st.View.Len() < a.quorum {", " {"),
		one("L14", "the configured quorum does not count", arbiterGo, "max(in.Quorum, a.expected/2+1)", "a.expected/2+1"),
		one("L14", "a majority of another boot counts", rejoinGo, "st.Boot != h.Token.Nonce || ", ""),
		one("L14", "a majority of another roster counts", rejoinGo, "!a.sameRoster(st) || st.Boot", "st.Boot"),
		one("L14", "a majority of a node that is not counted counts", leaseGo, "	if !ok || !view.Has(idx) {\n		return nil, 0", "	if !ok {\n		return nil, 0"),
		one("L14", "the word of a partner that gave the grant up is a write", relayGo, "	if a.memberEvidence(h, a.view).IsZero() {", "	if max(a.memberEvidence(h, a.view), a.rejoined(h, a.view)).IsZero() {"),
		one("L14", "a token that has moved on goes on beside a majority", leaseGo, "	if named, ok := g.token(a.slot); !ok || named != a.token {\n		return 0\n	}\n	if len",
			"	if named, ok := g.token(a.slot); !ok || named.Counter+1 < a.token.Counter {\n		return 0\n	}\n	if len"),
		in(glue, one("L14", "no tie-breaker is told the quorum", "watchdog/breaker.go", "TieSince: c.tieSince, Quorum: c.rosters.quorum,", "TieSince: c.tieSince,")),
		in(sim, one("K8", "a member that has a majority ends the grant", "k8s/leasequorum/arbiter.go", "		case out.Why != \"\" && a.bridge(now, out, &want): // K8\n", "")),
		in(kube, one("K8", "a majority without this node counts", kubeGo, " && st.View.Has(a.cfg.Roster.Self)", "")),
		in(kube, one("K8", "any view with this node in it counts", kubeGo, " && st.View.Len() >= a.quorum", "")),
		in(kube, one("K8", "a majority of another boot counts", kubeGo, "st.Boot == h.Token.Nonce && ", "")),
		in(kube, one("K8", "this node's token may have moved on", kubeGo, " || i == r.Self && a.token != h.Token {", " {")),
		in(kube, one("K8", "the view may be another", kubeGo, "!ok || !a.view.Has(i) ||", "!ok ||")),
		in(kube, one("K8", "who goes by another Lease is not looked at", kubeGo, " || a.stranger() >= 0 {", " {")),
		in(kube, one("K8", "the majority of a member never ends", kubeGo, "		until = min(until, at.Add(a.cfg.Timing.MaxAge))\n", "		_ = at\n")),
		in(kube, one("K8", "the grant is not renewed", planGo, "	if out.Split == tie.Won || out.Split != tie.Lost && out.Why == \"\" {", "	if out.Split != tie.Lost && out.Why == \"\" {")),
		in(agent, one("freeze", "a status outlives its verdict", "cmd/fencing-agent/picture/status.go", "	judge(st, now, until)\n", "")),
		in(agent, one("freeze", "a verdict holds at its deadline", statusGo, "	if until > now {\n		v.ValidFor", "	if until >= now {\n		v.ValidFor")),
		in(agent, one("freeze", "without a verdict the node says that it feeds", statusGo, "			n.Feeding, n.Available = false, false\n", "			_ = n\n")),
		in(agent, one("freeze", "how long a verdict holds is from when the picture was taken", statusGo, "		v.ValidFor = durationpb.New(until.Sub(now))\n		return\n", "		return\n")),
		in(agent, one("freeze", "this node is listed for as long as nobody decides", hubGo, "	h.withdraw()\n", "")),
		in(agent, one("freeze", "this node is listed at its deadline", guardGo, "until > 0 && g.clock() >= until", "until > 0 && g.clock() > until")),
		in(agent, one("freeze", "this node, once taken out, stays out", serveGo, "		if a.published.hub.Withdrawn() {\n", "		if false {\n")),
		in(agent, one("freeze", "the API does not know the deadline", guardGo, "		g.deadline.Store(int64(until))\n", "")),
		in(glue, one("freeze", "this node is listed until its peers could answer", "watchdog/publication.go", "			wait.Remove(c.cfg.Roster.Self) // others may have missed it, or have said so: there is nothing to wait for\n", "")),
	}
}
