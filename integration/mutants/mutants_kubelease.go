package main

// kubeLeaseMutants are the guards of the tie-break by a Lease of the API server.
func kubeLeaseMutants() []mutant {
	const (
		arbiter  = "k8s/leasequorum/arbiter.go"
		schedule = "k8s/leasequorum/schedule.go"

		breakerGo = "watchdog/breaker.go"
	)
	in := func(m mutant) mutant {
		m.in = []string{"./k8s/leasequorum"}
		return m
	}
	glue := func(m mutant) mutant {
		m.in = []string{"./watchdog"}
		return m
	}
	wired := func(m mutant) mutant {
		m.in = []string{"./cmd/fencing-agent/agent"}
		return m
	}
	coded := func(m mutant) mutant {
		m.in = []string{"./k8s/leaseregister"}
		return m
	}
	return []mutant{
		coded(one("K7", "a horizon is rounded down", "k8s/leaseregister/codec.go", "(d+time.Millisecond-1)/time.Millisecond", "d/time.Millisecond")),
		in(one("K2", "a token does not move with the view", arbiter, "	if in.View != a.view || in.Released || grown {\n		a.view, a.token = in.View, netgossip.Token{}", "	a.view = in.View\n	if in.Released || grown {\n		a.token = netgossip.Token{}")),
		in(one("K2", "a token may be that of the agent before", arbiter, "&& t > a.drawn &&", "&& t >= a.drawn &&")),
		in(one("K2", "a grant has no end", arbiter, "min(anchor.Add(a.cfg.Timing.Term), evidence)", "evidence")),
		in(one("K2", "a grant is fed on without its members", arbiter, "min(anchor.Add(a.cfg.Timing.Term), evidence)", "anchor.Add(a.cfg.Timing.Term)")),
		in(one("K2", "a write counts from when it is found", schedule, "a.landed, a.landedAt = a.sentDigest, a.sentAt", "a.landed, a.landedAt = a.sentDigest, c.Ended")),
		in(one("K2", "a write counts before it is known to have landed", schedule, "op.Record.Tag, now, op.Record.Grant.Digest()\n", "op.Record.Tag, now, op.Record.Grant.Digest()\n		a.landed, a.landedAt = a.sentDigest, now\n")),
		in(one("K2", "a relay of another grant counts", schedule, "r.Instance == digest", "true")),
		in(one("K6", "who goes by another Lease is not looked at", arbiter, "	if i := a.stranger(); i >= 0 {", "	if i := a.stranger(); i > 1000 {")),
		in(one("K6", "only its own half is looked at", arbiter, "		if i == a.cfg.Roster.Self {\n			continue\n		}\n		if st, _", "		if i == a.cfg.Roster.Self || !a.view.Has(i) {\n			continue\n		}\n		if st, _")),
		in(one("K2", "a relay is passed on", arbiter, "	if digest := want.Digest(); a.landed == digest {\n		return netgossip.Relay{Log: a.cfg.Log, Instance: digest, Anchor: a.landedAt}\n	}\n", "	if at := a.anchor(want); at > 0 {\n		return netgossip.Relay{Log: a.cfg.Log, Instance: want.Digest(), Anchor: at}\n	}\n")),
		in(one("K2", "a member's view is not looked at", arbiter, "case st.View != a.view:", "case false:")),
		in(one("K2", "a member's roster is not looked at", arbiter, "case st.RosterEpoch != r.Epoch || st.RosterDigest != r.Digest:", "case false:")),
		in(one("K3", "a grant is replaced without proof or expiry", schedule, "	if why := a.mayReplace(now, want); why != \"\" {", "	if why := a.mayReplace(now, want); false {")),
		in(one("K3", "the expiry is counted from an older version", schedule, "	if !a.known || c.Version != a.version {\n		a.since = c.Ended", "	if !a.known {\n		a.since = c.Ended")),
		in(one("K3", "an expiry not longer than the term", arbiter, "t.Expire < t.Term+t.Term/8", "t.Expire < 0")),
		in(one("K3", "a boot before the token's proves it over", arbiter, "		return at >= a.learnt\n", "		return at > 0\n")),
		in(one("K3", "a lesser counter proves it over", arbiter, "st.Token.Counter > h.Token.Counter", "st.Token.Counter != h.Token.Counter")),
		in(one("K3", "one holder that is done stands for all", arbiter, "	for i, h := range old.Holders {\n		if !a.done[i]", "	for i, h := range old.Holders[:1] {\n		if !a.done[i]")),
		in(one("K3", "proofs outlive the grant they are for", schedule, "		a.done = make([]bool, len(c.Record.Grant.Holders))\n", "		a.done = append(a.done, make([]bool, len(c.Record.Grant.Holders))...)[:len(c.Record.Grant.Holders)]\n")),
		in(one("K3", "the expiry is that of this node's watchdog", arbiter, "a.cfg.Timing.Term+horizon)", "a.cfg.Timing.Term+a.horizon)")),
		in(one("K3", "the expiry is that of the holders alone", arbiter, "	horizon := a.horizon\n	for i := range a.record", "	horizon := time.Duration(0)\n	for i := range a.record")),
		in(one("K3", "one holder's horizon stands for all", arbiter, "horizon = max(horizon, a.horizonOf(&a.record.Grant.Holders[i]))", "horizon = a.horizonOf(&a.record.Grant.Holders[i])")),
		in(one("K3", "who states no horizon has this node's", arbiter, "		return a.cfg.Timing.Longest\n", "		return a.horizon\n")),
		in(one("K7", "a horizon told with another token counts", arbiter, "	if token != h.Token || horizon == 0 {", "	if token != h.Token && horizon == 0 {")),
		in(one("K7", "a token outlives its horizon", arbiter, "in.View != a.view || in.Released || grown {", "in.View != a.view || in.Released {\n		_ = grown")),
		in(one("K7", "a token outlives a horizon that is not known any more", arbiter, "grown := in.Horizon > a.horizon || in.Horizon == 0 && a.horizon > 0 //", "grown := in.Horizon > a.horizon //")),
		in(one("K7", "this node's horizon is written for all", arbiter, "token, horizon = st.Token, st.Guard.Horizon\n		}\n		if token.IsZero()", "token = st.Token\n		}\n		if token.IsZero()")),
		in(one("K5", "a Lease that names nobody expires by this node's watchdog", arbiter, "horizon = max(a.record.Horizon, a.longestHeard())", "horizon = a.horizon")),
		in(one("K5", "a Lease is made without the horizons known", schedule, "Op{Kind: Create, Record: Record{Horizon: a.longestHeard()}}", "Op{Kind: Create}")),
		in(one("K4", "a renewed half may name older tokens", arbiter, "same && want.Holders[i].Token == h.Token)", "same)")),
		in(one("K5", "a Lease that names nobody is free", arbiter, "	case len(old.Holders) == 0:\n		return \"the Lease is new, and who held one before is not known\" // K5", "	case len(old.Holders) == 0:\n		return \"\"")),
		in(one("K5", "the expiry outlives a Lease that was deleted", schedule, "	if !a.known || c.Version != a.version {\n		a.since = c.Ended", "	if a.since.IsZero() || a.known && c.Version != a.version {\n		a.since = c.Ended")),
		in(one("live", "an excluded half goes on", arbiter, "	return may\n", "	return false\n")),
		in(one("live", "a half is not granted again after a restart in it", arbiter, "!(same && want.Holders[i].Token == h.Token)", "(!same || want.Holders[i].Token == h.Token)")),
		in(one("live", "a write that landed is not noted", schedule, "	if a.sent == c.Record.Tag && a.sent != (Tag{}) {", "	if false {")),
		in(one("live", "a grant is not renewed", schedule, "max(a.heldAt, a.anchor(want)).Add(a.cfg.Timing.Term / 4)", "boottime.Never")),
		in(one("K2", "a token survives a change of the list of members", arbiter, "a.cfg.Roster, a.view, a.token = r, roster.Set{}, netgossip.Token{}", "a.cfg.Roster = r")),
		in(one("live", "an API server in trouble is asked on and on", schedule, "min(t.Refresh, t.Retry<<min(a.failures-1, maxDoublings))", "t.Retry")),
		glue(one("K3", "the half that is next does not hear of a guard given up", "watchdog/guard.go", "!c.guard.Leases || c.united && c.slotShows(now)", "!c.guard.Leases || !c.bySlots() || c.united && c.slotShows(now)")),
		glue(one("K7", "the core does not say how long its guard takes", breakerGo, ", Horizon: c.guard.Horizon,", ",")),
		glue(one("K7", "a node that is not armed yet states no horizon", "watchdog/guard.go", "		g.guard.Horizon = g.cfg.Budget.Horizon()\n", "		g.guard.Horizon = 0\n")),
		glue(one("K7", "a countdown of unknown length has a horizon", "watchdog/guard.go", "	case g.guard.Armed:\n		g.guard.Horizon = 0\n", "")),
		glue(one("live", "a planned stop ends the grant before the guard", breakerGo, "c.stopping && c.release.done", "c.stopping")),
		glue(one("proof", "a grant that may have lapsed counts as one that lasted", "watchdog/proof.go", "	case v.grantSince == 0 || now >= v.grantUntil:", "	case v.grantSince == 0:")),
		glue(one("proof", "nobody is told that a lease decides", breakerGo, "	c.guard.Leases = true\n", "")),
		glue(one("live", "what the Lease says is not taken over", breakerGo, "	c.split = *out\n", "")),
		wired(one("live", "an operation that the register has no room for never ends", "cmd/fencing-agent/agent/lease.go", "	a.box.put(func(b *batch) { b.leases = append(b.leases, done) })", "	_ = done")),
	}
}
