package main

// voiceMutants are the guards of the LUN as one more network (lun.mode: or).
func voiceMutants() []mutant {
	const (
		listenGo = "diskquorum/voices.go"
		voicesGo = "watchdog/voices.go"
		extendGo = "netgossip/extend.go"
		holdGo   = "watchdog/hold.go"
		budgetGo = "watchdog/budget.go"
	)
	in := func(pkg, rule, what, file, from, to string) mutant {
		m := one(rule, what, file, from, to)
		m.in = []string{pkg}
		return m
	}
	const lun, gossip, sim = "./diskquorum", "./netgossip", "./integration/sim"
	guard := in(watchdogs, "N3", "a boot heard on the LUN alone has the guard of the one before", "watchdog/proof.go", "kills(w.statement)) && !w.unmet() && ", "kills(w.statement)) && ")
	guard.edits = append(guard.edits, edit{"watchdog/proof.go", "kills(st) && !w.unmet() && ", "kills(st) && "})
	return []mutant{
		in(watchdogs, "N3", "a boot heard on the LUN alone is dead by the sentence of the one before", "watchdog/sentenced.go", "w.death.Boot == w.boot && !w.twins && !w.unmet() && ", "w.death.Boot == w.boot && !w.twins && "),
		guard,
		in(watchdogs, "N3", "a boot heard on the LUN alone is dead since the one before ended", "watchdog/proof.go", "		put(&v.fenced, p, !w.unmet())\n", "		v.fenced.Add(p)\n"),
		in(lun, "N1", "a word counts for ever", listenGo, "p.date == 0 || now >= until ||", "p.date == 0 ||"),
		in(lun, "N1", "a word counts from now on", listenGo, "Until: until, Mutual", "Until: now.Add(dated), Mutual"),
		in(lun, "N1", "the oldest word of a member counts", listenGo, " || until <= voices[i].Until {", " {"),
		in(watchdogs, "N1", "echo blocks are written only while somebody is missing", holdGo, "!c.listens() && !c.sentence", "!c.sentence"),
		in(lun, "N1", "echo blocks wait for the next read of the table", "diskquorum/echoes.go", "a.sinceRead > 0 && now >= a.readDue(in) {", "a.sinceRead > 0 && in != nil {"),
		in(watchdogs, "N1", "a majority by the LUN is none", voicesGo, "	c.merger.Extend(&c.view, now, c.rosters.quorum, v.until)\n", ""),
		in(gossip, "N1", "a quorum lasts as long as its networks", extendGo, "			e = max(e, until[p])", "			e = max(e, min(e, until[p]))"),
		in(gossip, "N1", "a quorum of one list is one of all", extendGo, "i == 0 || end < v.QuorumUntil", "i >= 0"),
		in(lun, "N2", "who does not see this node is counted", listenGo, "Mutual: p.Settled && p.Seen.Has(a.roster.Self)", "Mutual: p.Settled"),
		in(watchdogs, "N2", "who does not count by the LUN says whom it sees", voicesGo, "	if !c.listens() || c.apart() {\n		return roster.Set{}", "	if false {\n		return roster.Set{}"),
		in(watchdogs, "N3", "a word is no sighting", "watchdog/proof.go", "		w.unseen, w.voiced = now, words[p].Boot\n		v.lost.Remove(p)\n", "		w.voiced = words[p].Boot\n"),
		in(sim, "N3", "a word is no sighting", "watchdog/proof.go", "		w.unseen, w.voiced = now, words[p].Boot\n		v.lost.Remove(p)\n", "		w.voiced = words[p].Boot\n"),
		in(watchdogs, "N4", "the horizon has no room for words", budgetGo, "max(b.MaxAge+b.Sampling, b.Voices)", "b.MaxAge + b.Sampling"),
		in(watchdogs, "N5", "who is only on the LUN is not LEFT", "watchdog/publication.go", "	avail := c.view.Seen.And(", "	avail := c.view.Seen.Union(c.voices.heard).And("),
		in(watchdogs, "N6", "words count while the list of members changes", voicesGo, "	one := c.rosters.noOther()", "	one := true"),
		in(lun, "N6", "a word by two lists counts", listenGo, "Mutual: p.Settled && ", "Mutual: "),
		in(lun, "N6", "a word by another list counts", listenGo, " || !a.sameList(&p.Echo) ||", " ||"),
		in(watchdogs, "N2", "a boot that has ended is heard", voicesGo, " || c.proof.hasEnded(p, w.Boot) {", " {"),
		in(watchdogs, "P5", "a condemned boot is counted by the LUN", "watchdog/proof.go", " || w.sentenced != 0 && w.sentenced == boot", ""),
		in(watchdogs, "P2", "a condemned node says on the LUN whom it sees", voicesGo, "	if !c.listens() || c.apart() {\n		return roster.Set{}", "	if !c.listens() {\n		return roster.Set{}"),
		in(watchdogs, "H2", "who was told on the LUN that it is seen is missed", holdGo, "		window = max(window, c.cfg.Budget.Voices)", "		_ = max(window, c.cfg.Budget.Voices)"),
		in(watchdogs, "M1", "claims of who counts by the LUN cover time in which it did not live", holdGo, "(c.cfg.Hold || c.cfg.LUNMode == LUNOr) && (c.cfg.LUN", "c.cfg.Hold && (c.cfg.LUN"),
	}
}
