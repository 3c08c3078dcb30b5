package main

// termsMutants are the guards of the terms on which ties are broken (docs/lease.md, T1 to T5).
func termsMutants() []mutant {
	const (
		agreement = "watchdog/agreement.go"
		follows   = "cmd/fencing-agent/agent/terms.go"
	)
	core := func(m mutant) mutant {
		m.in = []string{watchdogs}
		return m
	}
	agents := func(m mutant) mutant {
		m.in = []string{"./integration/agentsim"}
		return m
	}
	wired := func(m mutant) mutant {
		m.in = []string{"./cmd/fencing-agent/agent"}
		return m
	}
	return []mutant{
		core(one("T1", "half is a majority", agreement, "2*heard.Len() > n", "2*heard.Len() >= n")),
		core(one("T1", "a word for other terms counts", agreement, "!a.heard.Has(p) && a.own.Fit(st.Terms) &&", "!a.heard.Has(p) &&")),
		core(one("T1", "a word from before counts", agreement, "if st == nil || at <= a.since {", "if st == nil || at < 0 {")),
		core(one("T1", "a word that is not settled counts", "netgossip/terms.go", "(t == o || !o.Stated())", "(t.Log == o.Log || !o.Stated())")),
		core(one("T2", "a member of the half need not agree", agreement, "|| st.Terms.Stated() && !st.Agreed {", "{")),
		core(one("T2", "a member of the half may go by other terms", agreement, "st == nil || !c.terms.own.Fit(st.Terms) ||", "st == nil ||")),
		core(one("T2", "this node need not agree", agreement, "	if !c.Agreed() {\n		return false\n	}", "")),
		core(one("T2", "a half at odds asks the API server", decideGo, "	if in.AtOdds && (in.Arbiter || in.API) {", "	if in.AtOdds && in.Arbiter {")),
		agents(one("T2", "a half at odds is arbitrated by the LUN", "watchdog/breaker.go", "	return tie.Input{\n		View: c.view.Counted,", "	c.united = true\n	return tie.Input{\n		View: c.view.Counted,")),
		core(one("T3", "terms that are not settled are gone by", agreement, "return a.own.Settled() && 2*", "return 2*")),
		wired(one("T3", "other terms keep the words", follows, "		next.heard = nil\n", "")),
		wired(one("T3", "other terms are gone by before they are on file", follows, "netgossip.Terms{By: w.by | netgossip.Unsettled, Log: log}", "netgossip.Terms{By: w.by, Log: log}")),
		wired(one("T3", "a clone is the LUN", follows, "moved := known != \"\" && storage != \"\" && known != storage", "moved := false")),
		wired(one("T3", "an earlier write brings the words back", follows, "w.onFile.equal(&w.want) && a.core.Terms()", "w.onFile.terms == w.want.terms && a.core.Terms()")),
		wired(one("T3", "a write that failed counts", follows, "		if s.err != nil {\n			continue\n		}\n", "")),
		core(one("calm", "who has yet to settle its terms is at odds", agreement, "put(&a.unfit, p, a.own.Settled() && st", "put(&a.unfit, p, st")),
		core(one("calm", "the slots are read as seldom as ever until all agree", agreement, "	return a.own.By&netgossip.BreaksByLUN != 0 && a.own.Settled()", "	return false && a.own.Settled()")),
		core(one("T4", "no slot is looked for", agreement, "	if c.terms.own.By&netgossip.BreaksByLUN == 0 {\n", "	if true {\n")),
		core(one("T4", "the words are forgotten when the list changes", "watchdog/rosters.go", "c.terms.heard, c.terms.unfit = n.Set(c.terms.heard), n.Set(c.terms.unfit)", "_ = n")),
	}
}
