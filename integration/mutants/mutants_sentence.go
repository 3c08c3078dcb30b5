package main

// sentenceMutants are the guards of the sentence, P1 to P9.
func sentenceMutants() []mutant {
	const (
		coreGo   = "watchdog/core.go"
		judgeGo  = "watchdog/sentence.go"
		lunGo    = "diskquorum/sentence.go"
		feederGo = "watchdog/wdt/sentence.go"
		loopGo   = "watchdog/wdt/loop.go"
		deviceGo = "watchdog/wdt/device.go"
		boundGo  = "netgossip/sentence.go"
		lun, sim = "./diskquorum", "./integration/sim"
		wdt      = "./watchdog/wdt"
		agent    = "./cmd/fencing-agent"
	)
	in := func(pkg, rule, what, file, from, to string) mutant {
		m := one(rule, what, file, from, to)
		m.in = []string{pkg}
		return m
	}
	twins := in(watchdogs, "P4", "twins are shown dead", "watchdog/sentenced.go", "w.fires() && !w.twins && (w.death.Boot", "w.fires() && (w.death.Boot")
	twins.edits = append(twins.edits, edit{"watchdog/sentenced.go", "w.death.Boot == w.boot && !w.twins && !w.unmet()", "w.death.Boot == w.boot && !w.unmet()"})
	unmet := in(watchdogs, "P4", "a boot that was not met is condemned", "watchdog/sentenced.go", "		if v.peers[p].boot == s.Boot && ", "		if ")
	unmet.edits = append(unmet.edits, edit{"watchdog/sentenced.go", "boot == 0 || boot != w.boot || boot == w.sentenced", "boot == 0 || boot == w.sentenced"},
		edit{"watchdog/sentenced.go", "	if w.sentenced == w.boot && w.defied", "	if w.defied"})
	return []mutant{
		in(watchdogs, "P2", "an agent tells of a countdown that nobody has read back", judgeGo, "	s.condemned, s.inherited, s.at, s.answered = true, true, now, true\n", "	s.condemned, s.inherited, s.at, s.answered, s.timeout = true, true, now, true, timeout\n"),
		in(watchdogs, "P2'", "what was told on the LUN is not told again", judgeGo, "		s.timeout = a.OwnSentence()\n", ""),
		in(lun, "P1", "who counts a few of the others is a majority", lunGo, "		if !set.Minus(words[m].View).IsEmpty() {", "		if false {"),
		in(lun, "P1", "two are a majority", lunGo, "set.Len() >= quorum", "set.Len() >= 2"),
		in(lun, "P1", "who does not live is evidence", lunGo, "if p.Lives && !p.View.Has(", "if !p.View.Has("),
		in(lun, "P1", "who counts this node is evidence", lunGo, "if p.Lives && !p.View.Has(a.roster.Self) {", "if p.Lives {"),
		in(lun, "P1", "old words are evidence", lunGo, "now.Sub(p.date) > fresh ||", "now.Sub(p.date) > 1000*fresh ||"),
		in(lun, "P1", "a word by another list is evidence", lunGo, " || !a.sameList(&p.Echo) ||", " ||"),
		in(lun, "P1", "who sees this node is evidence", lunGo, "		if a.seenBy(slot) && ", "		if false && "),
		in(lun, "P1", "a value that may follow is no matter", lunGo, "g == nil || a.lease.pending || a.lease.unknown ||", "g == nil ||"),
		in(lun, "P1", "a half that came apart is evidence", lunGo, "		if words[m].View != half {", "		if false {"),
		in(lun, "P1", "any token will do", lunGo, " || p.Token != h.Token || !p.Granted", " || !p.Granted"),
		in(sim, "P1", "contact need not be steady", judgeGo, "others.Round-s.round >= rounds-1 && c.steady(now):", "others.Round-s.round >= rounds-1:"),
		in(lun, "P1", "older agents are no matter", lunGo, "&& !e.record().Statement.Heeds:", "&& false:"),
		in(watchdogs, "P1", "older agents are no matter", "watchdog/rosters.go", "st != nil && !st.Heeds {", "false && st != nil {"),
		in(lun, "P2", "a condemned node holds its token", lunGo, "	a.abort(\"this node is condemned\")\n	a.moveToken()\n", "	a.abort(\"this node is condemned\")\n"),
		in(lun, "P2", "a condemned node proposes", "diskquorum/arbiter.go", "!a.stop && !a.judged.condemned\n", "!a.stop\n"),
		in(watchdogs, "P2", "a condemned node is fed", decideGo, "	if in.Condemned {\n", "	if false {\n"),
		in(watchdogs, "P2", "a condemned node arms", coreGo, "!c.fx.Disarm && !c.sentence.condemned\n", "!c.fx.Disarm || c.sentence.condemned\n"),
		in(watchdogs, "P2", "a condemned node states whom it sees", coreGo, "	if c.sentence.condemned || c.sentence.blind {\n		st.Seen", "	if false {\n		st.Seen"),
		in(watchdogs, "P2", "a condemned node is stopped as planned", "watchdog/guard.go", "g.stopping = !g.end.condemned }", "g.stopping = true }"),
		in(watchdogs, "P2", "a condemned node gives its guard up", "watchdog/guard.go", "	if g.end.condemned {\n		return false // there", "	if false {\n		return false // there"),
		in(watchdogs, "P2", "it is told before it was read back", coreGo, "Sentence:     c.sentence.timeout,", "Sentence:     c.cfg.Sentence.Timeout,"),
		in(wdt, "P2", "a condemned feeder feeds", loopGo, "!now.Before(until) || f.sentenced() {", "!now.Before(until) {"),
		in(wdt, "P2", "a condemned feeder disarms", loopGo, "	if !r.arm && !f.sentenced() {", "	if !r.arm {"),
		in(wdt, "P2", "a condemned feeder arms", loopGo, "f.permitted() && !f.sentenced() {", "f.permitted() {"),
		in(wdt, "P2", "a condemned feeder stops", loopGo, "	if f.sentenced() || l.open &&", "	if l.open &&"),
		in(wdt, "P2", "what the driver did not take is told", feederGo, "	case told > watchdog.MaxSentence:", "	case false:"),
		in(wdt, "P2", "a driver that refuses is not asked for more", feederGo, "; !errors.Is(err, watchdog.ErrRefused) {", "; true {"),
		in(wdt, "P3", "the sentence outlives the horizon", feederGo, "		if now.Add(watchdog.SentenceBound(watchdog.Latest(driver, timeout))) > end {", "	if now > end {"),
		in(wdt, "P9", "a call that failed is no feed", feederGo, "	if began > 0 {", "	if false && began > 0 {"),
		in(wdt, "P2", "what is left is no matter", deviceGo, "err == nil && left > seconds:", "err == nil && left > seconds+3600:"),
		in(wdt, "P2", "an old driver is believed", deviceGo, "	case err != nil && d.name == \"\":", "	case false:"),
		in(wdt, "P2'", "the device of a condemned boot is opened", deviceGo, "known && c.Condemns(timeout) {", "known && c.Running && false {"),
		in(watchdogs, "P2'", "an agent that cannot see counts at once", judgeGo, "return s.blind || s.condemned", "return s.condemned"),
		in(agent+"/agent", "P2'", "the lock goes before the watchdog", "cmd/fencing-agent/agent/sentence.go", "			if a.opts.Watchdog != nil { // of", "			if true { // of"),
		in(watchdogs, "P2'", "it waits from its own start", judgeGo, "	if s.blind && s.sight != 0 && now >= s.sight {", "	if s.blind && now >= s.sight {"),
		in(watchdogs, "P3", "a long timeout is told", judgeGo, "timeout > 0 && timeout <= netgossip.MaxSentence {\n		s.timeout", "timeout > 0 {\n		s.timeout"),
		in(watchdogs, "P3", "a long timeout is believed", "watchdog/sentenced.go", "timeout <= 0 || timeout > netgossip.MaxSentence {\n		return\n	}\n	w.", "timeout <= 0 {\n		return\n	}\n	w."),
		in(watchdogs, "P3", "the countdown runs once", boundGo, "twice := 2 * (", "twice := ("),
		unmet,
		in(watchdogs, "P4", "another name is condemned", "watchdog/sentenced.go", " && diskquorum.NameDigest(v.roster.Name(p)) == s.Name {", " {"),
		in(lun, "P4", "a sentence counts in any slot", lunGo, "	case e.status == slotKnown && NameDigest(e.record().NodeName) == s.Name:", "	case e != nil:"),
		in(watchdogs, "P4", "who is seen by others is shown dead", "watchdog/sentenced.go", "!w.twins && !w.unmet() && !v.seenByCounted(now, p))", "!w.twins && !w.unmet())"),
		twins,
		in(watchdogs, "P5", "a condemned boot is counted", "netgossip/merge.go", " || m.barred.Has(p) {", " {"),
		in(lun, "P5", "a condemned boot is evidence", lunGo, " || p.Judged.Timeout > 0 || parted", " || parted"),
		in(lun, "P1", "who is named lives by it, fed or not", lunGo, " || !p.Feeding || p.Holding {", " {"),
		in(watchdogs, "P8", "silence takes a condemned node down", strikeGo, "	if c.sentence.condemned || c.Barred() == BarNone {", "	if false {"),
		in(watchdogs, "P9", "a boot that outlives its sentence stays dead", "watchdog/sentenced.go", "(w.lived > w.death.At || spoke == w.boot && at > w.death.At) {", "false && at > 0 && spoke > 0 {"),
		in(watchdogs, "P9", "it is believed again", "watchdog/sentenced.go", "w.defied != w.boot && w.fires() && !w.twins && (w.death.Boot", "!w.twins && (w.death.Boot"),
	}
}

// lossMutants are the guards of the sentence of a node that alone has lost the LUN, ground E3 of P1.
func lossMutants() []mutant {
	const lossGo = "watchdog/sentence.go"
	in := func(pkg, what, file, from, to string) mutant {
		m := one("P1", what, file, from, to)
		m.in = []string{pkg}
		return m
	}
	return []mutant{
		in(watchdogs, "peers that a hub counts show that others live", lossGo, "			if !set.Minus(other.View).IsEmpty() {", "			if other == nil {"),
		in(watchdogs, "a few that have the LUN are a majority", lossGo, "set.Len() < c.rosters.quorum {", "set.Len() < 1 {"),
		in(watchdogs, "who has lost the LUN shows that others have it", lossGo, " && st.LUNHealthy && st.Feeding", " && st.Feeding"),
		in(watchdogs, "who is not fed shows that others live", lossGo, " && st.Feeding &&", " &&"),
		in(watchdogs, "old words show that others live", lossGo, "			now.Sub(anchor) <= c.cfg.MaxAge && st.Roster", "			anchor <= now && st.Roster"),
		in("./integration/sim", "it is the default", lossGo, "	if !c.cfg.Sentence.LUNLoss || d.Action", "	if d.Action"),
	}
}
