package main

// guardMutants are what is known of watchdogs that fire late, or not at all.
func guardMutants() []mutant {
	const (
		coreGo  = "watchdog/core.go"
		handGo  = "watchdog/facts.go"
		lateGo  = "watchdog/lateness.go"
		judgeGo = "watchdog/sentence.go"
		loopGo  = "watchdog/wdt/loop.go"
		trialGo = "cmd/fencectl/trial/trial.go"
		wdt     = "./watchdog/wdt"
		sim     = "./integration/agentsim"
		configs = "./cmd/fencing-agent/config"
	)
	in := func(pkg, rule, what, file, from, to string) mutant {
		m := one(rule, what, file, from, to)
		m.in = []string{pkg}
		return m
	}
	counts := in(watchdogs, "P9", "a watchdog that did not fire counts down a sentence", "watchdog/sentenced.go", " || boot == w.defied || boot == w.unfired || timeout", " || boot == w.defied || timeout")
	counts.edits = append(counts.edits, edit{"watchdog/sentenced.go", "w.defied != w.boot && w.fires() && !w.twins", "w.defied != w.boot && !w.twins"})
	return []mutant{
		in(watchdogs, "L9", "a watchdog that did not fire is trusted again", proofGo, "	case w.death.Proof == ProofTime:\n		w.unfired = w.boot\n", ""),
		in(watchdogs, "L9", "a watchdog that did not fire proves a death by the word of others", proofGo, "!w.unmet() && w.fires() && (max(", "!w.unmet() && (max("),
		in(watchdogs, "L9", "a watchdog that did not fire guards", proofGo, "!w.unmet() && w.fires() && (anchor", "!w.unmet() && (anchor"),
		in(watchdogs, "L9", "the next boot has the watchdog of the last", "watchdog/prover.go", "return w.unfired == 0 || w.unfired != w.boot }", "return w.unfired == 0 }"),
		counts,
		in(watchdogs, "P9", "a boot that has outlived its sentence is dead by time", "watchdog/sentenced.go", "		w.unfired = w.boot\n		v.defy(p, w.boot)\n", "		v.defy(p, w.boot)\n"),
		in(watchdogs, "L9", "nobody hears of a watchdog that did not fire", handGo, "		if boot := v.unfiredBoot(p); boot != 0 {", "		if boot := v.unfiredBoot(p); boot == 1 {"),
		in(watchdogs, "L9", "the word of a watchdog that did not fire is not taken", handGo, "		v.peers[p].unfired = boot\n", "		_ = boot\n"),
		in(watchdogs, "L9", "a word of the boot before is taken", handGo, "boot != 0 && boot == v.peers[p].boot:\n		v.peers[p].unfired = boot", "boot != 0:\n		v.peers[p].unfired = v.peers[p].boot"),
		in(watchdogs, "L9", "the next agent of a boot does not listen", handGo, "	case p == v.roster.Self && boot == v.cfg.Boot:\n		v.out.Unfired = true\n", "	case p == v.roster.Self && boot == v.cfg.Boot:\n"),
		in(watchdogs, "L9", "the next boot listens to what is said of the last", handGo, "p == v.roster.Self && boot == v.cfg.Boot:", "p == v.roster.Self:"),
		in(watchdogs, "L9", "a watchdog that did not fire has a horizon", "watchdog/guard.go", "	case g.unfired:\n		g.guard.Horizon = 0\n", ""),
		in(watchdogs, "L9", "nobody looks into the slot", coreGo, "	c.recallGuard()\n", ""),
		in(watchdogs, "L9", "the slot of the boot before is this boot's", coreGo, "	if !ok || rec.Statement.Boot != c.cfg.Boot || rec", "	if !ok || rec"),
		in(watchdogs, "L9", "an agent that states no horizon has seen its watchdog not fire", coreGo, " || rec.GrantLifetime == 0 {", " {"),
		in(watchdogs, "L9", "a driver that does not tell its timeout has not fired", coreGo, "g.Armed && g.Timeout > 0 && g.Horizon == 0", "g.Armed && g.Horizon == 0"),
		in(wdt, "L9", "a watchdog is seen not to fire when it is due", loopGo, "return latest + latest/50 + 2*time.Second }", "return latest }"),
		in(wdt, "L9", "a watchdog is never seen not to fire", loopGo, "			f.unfired.Store(true)\n", "			f.overdue.Store(true)\n"),
		in(sim, "L9", "the core does not hear of it", "cmd/fencing-agent/agent/signals.go", "		a.core.GuardFailed()\n", "		_ = b\n"),
		in(sim, "L9", "the factor of a late driver is forgotten", lateGo, "			return d\n", "			return timeout\n"),
		in(watchdogs, "L9", "peers are told the timeout that was set", "watchdog/guard.go", "Timeout: Latest(g.driver, timeout),", "Timeout: timeout,"),
		in(sim, "L9", "the core does not hear the driver's name", "cmd/fencing-agent/agent/signals.go", "		a.core.SetDriver(b.feeder.Info.Identity)\n", ""),
		in(watchdogs, "P3", "a late driver counts down a sentence", "watchdog/guard.go", " && shortest(g.driver, g.cfg.Sentence.Timeout) <= netgossip.MaxSentence", ""),
		in(watchdogs, "P3", "a driver takes any sentence", "watchdog/guard.go", " && shortest(g.driver,", " && Latest(g.driver,"),
		in(watchdogs, "P2'", "an ordinary countdown may look like a sentence", "watchdog/guard.go", "g.set > netgossip.MaxSentence && ", "g.guard.Timeout > netgossip.MaxSentence && "),
		in(wdt, "P3", "a sentence tells what was set", "watchdog/wdt/sentence.go", "told := v.info.Latest() //", "told := got //"),
		in(wdt, "L9", "a late driver is overdue early", loopGo, "	if l.latest > 0 && !now.Before(l.attempt.Add(l.latest)) &&", "	if l.latest > 0 && !now.Before(l.attempt.Add(l.countdown)) &&"),
		in(configs, "K5", "the Lease expires by the timeout that was set", "cmd/fencing-agent/config/lease.go", "c.BudgetFor(c.LatestReset(), n)", "c.BudgetFor(c.Watchdog.Timeout, n)"),
		in(configs, "K3", "who is not known has the longest timeout of a driver that keeps to it", "cmd/fencing-agent/config/lease.go", "watchdog.LatestOfAny(longestTimeout)", "longestTimeout"),
		in("./cmd/fencectl/trial", "watchdog test", "one that fires late is given up", trialGo, "	due := 2 * info.Timeout\n", "	due := info.Timeout\n"),
		in("./cmd/fencectl/trial", "watchdog test", "one that is known to fire late is given up", trialGo, "		due = max(due, t.Latest(info.Identity, info.Timeout))\n", "		due = max(due, info.Timeout)\n"),
		in("./cmd/fencectl/trial", "watchdog test", "nobody keeps how late it was", trialGo, "					t.Ran(-left)\n", "					_ = left\n"),
		in(wdt, "setup", "ipmi_watchdog can do nothing", "watchdog/wdt/device.go", "	options := support.Options | understated[identity]\n", "	options := support.Options\n"),
	}
}

// vouchedMutants are the guards of a first list that a person vouches for, and of a memory that was removed.
func vouchedMutants() []mutant {
	const joinGo, cacheGo, membersGo = "netgossip/roster/succession_join.go", "cmd/fencing-agent/members/cache.go", "cmd/fencing-agent/members/members.go"
	in := func(pkg, what, file, from, to string) mutant {
		m := one("J", what, file, from, to)
		m.in = []string{pkg}
		return m
	}
	const rosters, members = "./netgossip/roster", "./cmd/fencing-agent/members"
	return []mutant{
		in(rosters, "a first list is in force by definition", joinGo, "s.vouched && s.agreed(p) {", "s.vouched {"),
		in(rosters, "a first list is in force beside another one", joinGo, "		case !st.Fresh:\n			return false\n		}\n	}\n	if list.Self", "		}\n	}\n	if list.Self"),
		in(rosters, "who begins with another list agrees", joinGo, "case st.Chain == [MaxChain]Ref{list.Ref()}:", "case st.Fresh || st.Chain == [MaxChain]Ref{list.Ref()}:"),
		in(rosters, "a list of one is in force after all was forgotten", joinGo, "s.forgot && list.Size() == 1 {", "false {"),
		in(rosters, "half of the first list puts it into force", joinGo, "return s.majority(p, list, agree) && 2*agree.And(p.Members(list)).Len() > list.Size()", "return 2*agree.And(p.Members(list)).Len() >= list.Size()"),
		in(rosters, "a first list waits for ever for a later one", "netgossip/roster/succession_step.go", "		if rank == offered && s.vouched && s.founding() {\n			return", "		if rank == offered && s.vouched && s.founding() && s.saving {\n			return"),
		in(members, "nobody sees that an agent has run here", cacheGo, "	return !first && !errors.Is(err, fs.ErrNotExist), first", "	return !first && !errors.Is(err, fs.ErrNotExist) && c.lock == \"\", first"),
		in(members, "a node begins with its first list in force", membersGo, "	if m.unnumbered || vouched {\n", "	if m.unnumbered {\n"),
		in(members, "a restart makes a forgotten list one that begins", membersGo, "forgot = before || saved != nil && !first", "forgot = before && saved == nil && !first"),
	}
}

// releaseAndJudgeMutants are when a node gives its guard up, when it may condemn itself, and what it says after a stall.
func releaseAndJudgeMutants() []mutant {
	const coreGo, judgeGo = "watchdog/core.go", "watchdog/sentence.go"
	in := func(pkg, rule, what, file, from, to string) mutant {
		m := one(rule, what, file, from, to)
		m.in = []string{pkg}
		return m
	}
	return []mutant{
		in(watchdogs, "death", "a node without quorum gives its guard up", disarmGo, "	return !c.guard.Kills() || c.rosters.removed() || c.outcome == netgossip.Majority || d.Action == Feed && d.Quorum\n", "	return d != nil\n"),
		in(watchdogs, "death", "a half that is held gives its guard up", disarmGo, "d.Action == Feed && d.Quorum\n", "d.Quorum\n"),
		in(watchdogs, "death", "a half that has lost gives up what it announced before", disarmGo, "if d := &c.fx.Decision; d.Action != Feed || !d.Quorum {", "if d := &c.fx.Decision; d == nil {"),
		in(watchdogs, "death", "a node without quorum says that it stops", coreGo, "Stopping:     c.guarding.leaving(),", "Stopping:     c.stopping,"),
		in(watchdogs, "death", "a node without quorum has its slot say that it stops", "watchdog/breaker.go", "Stop: c.guarding.leaving(),", "Stop: c.stopping,"),
		in(watchdogs, "P1", "a list at hand keeps a node from condemning itself", "watchdog/rosters.go", "s.Claims() && s.Base().Ref() == r.cfg.Roster.Ref()", "s.Claims() && r.standing == (roster.Standing{})"),
		in(watchdogs, "P1", "a node that counts by two lists condemns itself", "watchdog/rosters.go", "r.settled() && s.Claims() && s.Base", "s.Claims() && s.Base"),
		in(watchdogs, "P1", "sets by another list are evidence", "watchdog/rosters.go", "s.Claims() && s.Base().Ref() == r.cfg.Roster.Ref()", "s.Claims()"),
		in(watchdogs, "N6", "who has another list at hand is counted by the LUN", "watchdog/hold.go", "	if c.cfg.LUNMode == LUNOr {\n		return c.rosters.noOther()", "	if c.cfg.LUNMode == LUNOr {\n		return c.rosters.oneList()"),
		in(watchdogs, "life", "a node that was stopped for a moment says LEFT of itself", "watchdog/publication.go", "if !c.stall.brief || c.judgedByOthers() {", "if c.stall.since != 0 || c.judgedByOthers() {"),
		in(watchdogs, "life", "a node that was stopped for long says no LEFT of itself", "watchdog/publication.go", "if !c.stall.brief || c.judgedByOthers() {", "if c.judgedByOthers() {"),
		in(watchdogs, "life", "nobody is asked after a stall", "watchdog/stall.go", "		c.askAll(c.proof.silent(c.rosters.expected, now))\n", ""),
		in(watchdogs, "life", "nobody is asked again after a stall", "watchdog/stall.go", "		c.askAll(c.proof.silent(c.rosters.expected, t.since))\n", ""),
		in(watchdogs, "life", "peers are held for longer than asking takes", "watchdog/stall.go", "holdLeft: now.Add(stallWord)", "holdLeft: now.Add(stallGrace)"),
		in(watchdogs, "life", "who is condemned and could not say so is available", "watchdog/publication.go", "avail.Minus(p.leaving).Minus(c.proof.parted())", "avail.Minus(p.leaving)"),
		in(watchdogs, "death", "a death that is known is due by time", "watchdog/prover.go", " || v.fenced.Has(p) && !w.death.handedOn() {", " {"),
		in(watchdogs, "P1", "words from before the first look are evidence", judgeGo, "others.Dated > s.since && others.Round", "others.Round"),
		in(watchdogs, "P1", "evidence may have a gap", judgeGo, "	case others.Dated == 0:\n		s.since = 0\n	case s.since == 0:", "	case others.Dated == 0:\n	case s.since == 0:"),
		in(watchdogs, "P1", "a look goes on where the node could not have condemned itself", judgeGo, "	if !c.mayCondemn(now) {\n		s.since = 0\n		return", "	if !c.mayCondemn(now) {\n		return"),
		in(watchdogs, "P1", "contact in one direction is none", judgeGo, "		s.quiet = max(s.quiet, c.merger.Sighted(p)) // in one direction is contact, too\n", "		_ = p\n"),
		in(watchdogs, "P1", "the view may change", judgeGo, "c.view.Counted != s.view.Minus(c.proof.parted()) || c.view.Seen.Intersects(others)", "c.view.Seen.Intersects(others)"),
		in(watchdogs, "P1", "a node that stood still judges at once", judgeGo, "return !stalled && now >= c.holdLeft &&", "return (stalled || !stalled) &&"),
		in(watchdogs, "P1", "a node that gives its guard up condemns itself", judgeGo, "c.guard.Kills() && !c.wantsDisarm() && !c.release.yielded", "c.guard.Kills() && !c.release.yielded"),
		in(watchdogs, "P1", "a node that has given its guard up condemns itself", judgeGo, " && !c.release.yielded && c.rosters.oneList()", " && c.rosters.oneList()"),
		in(watchdogs, "P1", "who goes by another list has parted", "watchdog/sentenced.go", " && st.RosterDigest == v.roster.Digest && st.RosterEpoch == v.roster.Epoch {", " {"),
		in(watchdogs, "P1", "who is not armed has parted", "watchdog/sentenced.go", "st != nil && st.Guard.Armed && st.View", "st != nil && st.View"),
	}
}
