package main

// orderMutants are the guards of orders that a node ends (docs/adr/0040, 0041).
func orderMutants() []mutant {
	const (
		orderGo     = "watchdog/order.go"
		sentenceGo  = "watchdog/sentence.go"
		namespaceGo = "api/publish/namespace.go"
		toldGo      = "watchdog/told.go"
		scheduleGo  = "netgossip/probing/schedule.go"
		sampleGo    = "netgossip/probing/sample.go"
		sims        = "./integration/sim"
		probes      = "./netgossip/probing"
		publish     = "./api/publish"
	)
	of := func(what, file, from, to string, in ...string) mutant {
		m := one("order", what, file, from, to)
		if m.in = in; len(in) == 0 {
			m.in = []string{watchdogs}
		}
		return m
	}
	return []mutant{
		of("consent is asked for before the answers count", orderGo, "orderAsk = letReach + 50*time.Millisecond", "orderAsk = letReach - 50*time.Millisecond"),
		of("consent is asked for a second late", orderGo, "orderAsk = letReach + 50*time.Millisecond", "orderAsk = time.Second"),
		of("who saw the victim is not asked for news", "watchdog/sentenced.go", "	if !seers.IsEmpty() {\n", "	if false {\n"),
		of("who sees the victim no more is asked for news", "watchdog/sentenced.go", "st != nil && st.Seen.Has(p) && max(now", "st != nil && max(now"),
		of("who will be too old to matter is asked for news", "watchdog/sentenced.go", "max(now, w.over).Sub(anchor) <= v.cfg.MaxAge)\n	}\n	if !seers", "now.Sub(anchor) <= v.cfg.MaxAge)\n	}\n	if !seers"),
		of("a question takes the place of another one of the step", toldGo, "ways[k].Union(v.out.Ask[k])", "ways[k].Union(ways[k])"),
		of("last words wait for the round under way", sampleGo, "	s.renudge = false\n	s.nudges.start(", "	if len(s.nudges.queue) > 0 {\n		return\n	}\n	s.nudges.start(", probes),
		of("last words take their time", sampleGo, "min(within, s.params.RoundTime(len(s.all)))", "s.params.RoundTime(len(s.all))", probes),
		of("few peers are told of last words one after the other", sampleGo, "		within = 0\n", "", probes),
		of("what was said before last words is said again after them", sampleGo, "	s.renudge = false\n	s.nudges.start(", "	s.nudges.start(", probes),
		of("a condemned node tells of it like of anything else", "cmd/fencing-agent/agent/loop.go", "		return gossip.Last\n", "		return gossip.Now\n", "./cmd/fencing-agent/agent"),
		of("news is told once, lost or not", scheduleGo, "		p.telling = now\n", "", probes),
		of("news is told for ever", scheduleGo, "		p.telling = 0\n", "", probes),
		of("an answer from before the news ends its telling", scheduleGo, "	if o.At >= p.telling {", "	if true {", probes),
		of("news is said again in a probe that asks briefly", scheduleGo, "p.nudged || p.telling != 0 || p.curious || !s.vouchable(p) {\n		return false", "p.nudged || p.curious || !s.vouchable(p) {\n		return false", probes),
		of("a kernel that tells of an end is taken for one that does not tell", namespaceGo, "return err == unix.ENOPROTOOPT", "return err == unix.ENOPROTOOPT || err == unix.EINVAL", publish),
		of("O1: an order is taken from anybody's statement", orderGo, "f == nil || f.Teller != netgossip.TellerDigest(v.roster.Name(m))", "f == nil"),
		of("O1: an old statement orders", orderGo, "st == nil || st.Facts[0].Kind != netgossip.FactOrder || now.Sub(anchor) > v.cfg.MaxAge", "st == nil || st.Facts[0].Kind != netgossip.FactOrder || now < anchor"),
		of("O2: an order for another boot counts", orderGo, "f.Name == name && f.Boot == boot {", "f.Name == name {"),
		of("O2: an order for another node counts", orderGo, "f.Name == name && f.Boot == boot {", "f.Boot == boot {"),
		of("O3: who starves orders", orderGo, "if st.Feeding && !st.Stopping", "if !st.Stopping"),
		of("O3: who stops orders", orderGo, "st.Feeding && !st.Stopping &&", "st.Feeding &&"),
		of("O3: who is condemned orders", orderGo, "st.Sentence == 0 && st.View.Has", "st.View.Has"),
		of("O3: who does not count this node orders", orderGo, "st.View.Has(v.roster.Self) && v.lists.mostOfEach(st.View)", "v.lists.mostOfEach(st.View)"),
		of("O3: who has no majority orders", orderGo, "st.View.Has(v.roster.Self) && v.lists.mostOfEach(st.View)", "st.View.Has(v.roster.Self)"),
		of("O4: maintenance and a missing watchdog are no matter", "watchdog/deaths.go", "	case !c.mayEnd(now): // also", "	case false: // also"),
		of("O5: the watchdog is no longer than a sentence", "watchdog/deaths.go", " || !c.briefly() ||", " ||"),
		of("O5: both countdowns need not fit", "watchdog/deaths.go", " || c.set < need:", " || c.set < need-time.Hour:"),
		of("O5: members that know no sentences are no matter", "watchdog/deaths.go", "	case !c.rosters.heeding() || c.lun", "	case c.lun"),
		of("O6: the others need no majority", orderGo, "	if !v.majority(rest) {", "	if false {"),
		of("O6: what the others count is no matter", orderGo, "m != p && v.majority(view))", "m != p)"),
		of("O6: the others may count on whom this node does not count", orderGo, "		view = view.And(stay) // others", "		// others"),
		of("O6: who is not fed counts among those who remain", orderGo, "!st.Stopping && (st.Feeding || !st.Guard.Armed))", "!st.Stopping)"),
		of("O6: who stops counts among those who remain", orderGo, "st != nil && !st.Stopping && (st.Feeding", "st != nil && (st.Feeding"),
		of("O6: who is under maintenance is not counted on", orderGo, "(st.Feeding || !st.Guard.Armed))", "st.Feeding)"),
		of("O7: two are ended at once", orderGo, "m != p && (w.death.Proof == 0 || w.death.Boot != w.boot) {", "w == nil {"),
		of("O7: one after the other without a pause", orderGo, "d.Proof == ProofSentence && now.Sub(d.At) < orderPause {", "d == nil {"),
		of("O8: who has not answered is no rival", orderGo, "v.disobeys(now) != 0 || !v.unheard().IsEmpty() {", "v.disobeys(now) != 0 {"),
		of("O8: what is answered before the word is out is consent", orderGo, "max(v.orders.heard, v.orders.taken.Add(letReach))", "v.orders.taken.Add(letReach)"),
		of("O8: the step that decides has said so", orderGo, "	if v.orders.heard == 0 {", "	if false {"),
		of("O8: a rival is no matter", orderGo, "	rival, _ := v.rival()\n	return !rival", "	return true"),
		of("O8: nobody gives way", orderGo, "	if first {\n		o.rest = now.Add(orderPause)\n	}\n", "	first = false\n", sims),
		of("O8: who has given way obeys at once", orderGo, "	case now < v.orders.rest:", "	case false:"),
		of("who takes no orders obeys", "watchdog/deaths.go", "	case !c.cfg.Orders || c.cfg.Sentence.Timeout <= 0", "	case c.cfg.Sentence.Timeout <= 0"),
		of("who gives no orders gives one", orderGo, "	if !v.cfg.Orders {\n", "	if false {\n"),
		of("a node orders itself", orderGo, "	case p == v.roster.Self:\n		return no(ForbiddenSelf", "	case false:\n		return no(ForbiddenSelf"),
		of("an order names any boot", orderGo, "	case boot != known || w.unmet():\n		return no(ForbiddenOtherBoot", "	case w.unmet():\n		return no(ForbiddenOtherBoot"),
		of("an order stands for ever", orderGo, " || now.Sub(o.since) >= orderLimit:", ":"),
		of("two orders at once from one agent", orderGo, "		case o.since != 0 && (o.node != w.Node || o.boot != w.Boot):", "		case false:"),
		of("a smaller part orders", orderGo, "	case !v.in.Leads: // nor", "	case false: // nor", sims),
		of("an order without a LUN ends in a fault", sentenceGo, "	if c.lun.arbiter != nil { // one that obeys may have no LUN\n", "	{\n"),
		of("a user orders", namespaceGo, "	if err := RootOnly(ctx); err != nil {\n		return err\n	}\n", "", publish),
		of("root of another container orders", namespaceGo, "!ok || !who.here {", "!ok || !who.known {", publish),
		of("a process below is here", namespaceGo, "return string(bytes.TrimSpace(rest)) == fmt.Sprint(pid)", "return bytes.HasPrefix(rest, fmt.Append(nil, \"\\t\", pid))", publish),
		of("who may not order orders", "api/publish/fence.go", "		s.log.Warn(\"an order was given by somebody who may not\", peerOf(ctx), \"peer\", printable(req.GetNode(), maxNode), \"error\", err)\n		return nil, err\n", "", publish),
	}
}
