package main

// doubtMutants are the guards of LEFT by doubt (docs/adr/0030).
func doubtMutants() []mutant {
	at := func(pkg, what, file, from, to string) mutant {
		m := one("doubt", what, file, from, to)
		m.in = []string{pkg}
		return m
	}
	const (
		doubtGo  = "netgossip/doubt/doubt.go"
		ruleGo   = "netgossip/doubt/rule.go"
		peerGo   = "netgossip/doubt/peer.go"
		wordGo   = "netgossip/doubt/word.go"
		doubtsGo = "netgossip/swim/doubts.go"
		codecGo  = "netgossip/swim/wire/word.go"
	)
	core := func(what, file, from, to string) mutant { return at("./netgossip/doubt", what, file, from, to) }
	node := func(what, file, from, to string) mutant { return at("./netgossip/swim", what, file, from, to) }
	pub := func(what, from, to string) mutant { return at(watchdogs, what, publicationGo, from, to) }
	return []mutant{
		core("a member has as many voices as words", peerGo, "return v.from == from })", "return v.from < 0 })"),
		core("two members make a LEFT", ruleGo, "firm < min(voices, c.size-1) ||", "firm < 2 ||"),
		core("nobody looks before it publishes", ruleGo, "|| now.Sub(since) < c.times(lookTimeouts) || probes < 2 {", "{"),
		core("a node that hears nobody publishes", ruleGo, "if !silent || !c.well(now) || !d.missed {", "if !silent || !d.missed {"),
		core("a node that stood still goes on with its silences", doubtGo, "	if now.Sub(c.called) >= c.times(jumpTimeouts) {\n", "	if false {\n"),
		core("a node that was deaf goes on with its silences", doubtGo, "c.mute != 0 && c.mute <= limit && c.floor <= limit", "false && c.mute <= limit"),
		core("a node that asked nobody is deaf", doubtGo, "		c.nets[k].heard, c.mute = now, 0\n", "		c.nets[k].heard, c.mute = now, now\n"),
		core("nobody looks whether it is the sick one", ruleGo, "	c.check(now)\n", ""),
		core("doubts begin before loss is measured", doubtGo, "c.size >= Least && c.loss.known()", "c.size >= Least"),
		core("small groups have doubts", doubtGo, "c.size >= Least && c.loss.known()", "c.loss.known()"),
		core("a word from before an answer counts", wordGo, "made <= c.reached(w.Peer) || ", ""),
		core("a word lasts for ever", ruleGo, "return c.window(p, now) + c.times(5)", "return time.Hour"),
		core("one member makes everybody look", ruleGo, ">= callers || d.count(Firm", ">= 1 || d.count(Firm"),
		core("the firm word does not wait for the window", ruleGo, "if d.firm == 0 && now.Sub(since) >= w && ", "if d.firm == 0 && "),
		core("a lonely doubter speaks to everybody", ruleGo, "if 1+d.count(Ask, from) < voices || c.mass() || c.many() {", "if c.mass() || c.many() {"),
		core("one of many that are gone is called out", ruleGo, "func (c *Core) many() bool { return c.own > findings }", "func (c *Core) many() bool { return false }"),
		core("what a sweep shows was found", ruleGo, "if (d.watches || d.sampled) && d.count(", "if d.count("),
		core("what is called out was found", ruleGo, "(d.watches || d.sampled) && d.count(Call, d.began) == 0 {", "d.watches || d.sampled || d.count(Call, d.began) > 0 {"),
		core("who has found many looks nowhere", ruleGo, "c.many() && !told {", "c.many() {"),
		core("who has found many looks everywhere", ruleGo, " || c.many() && !told {", " {"),
		core("a tenth of a large group is too many to look at", ruleGo, "if c.looked >= max(looksAtOnce, c.size/looksShare) {", "if c.looked >= looksAtOnce {"),
		core("there is no end to looks", ruleGo, "if c.looked >= max(looksAtOnce, c.size/looksShare) {", "if false {"),
		core("what was found is found for ever", doubtGo, "	if !missed && d.own {\n", "	if false {\n"),
		core("a cut is talked about", ruleGo, "	return c.missed > max(findings, c.size/massShare)\n", "	return false\n"),
		core("a member may ask as much as it likes", wordGo, "		if !b.take(1, now) {\n", "		if b.take(1, now); false {\n"),
		core("a dead switch is the silence of a peer", ruleGo, "		if !c.live(k, now) {\n", "		if false {\n"),
		core("one network is enough to miss a peer", ruleGo, "len(starts) < wanted", "len(starts) < 1"),
		core("a peer that stood still has the window of the others", doubtGo, "		w *= 2\n", "		_ = w\n"),
		core("another boot has the window of the one before", doubtGo, "		delete(c.relapses, p)\n", "		_ = p\n"),
		core("watchers that say nothing are waited for", ruleGo, "		c.tell(Ask, d, c.others(d))\n", "		_ = d\n"),
		core("a word renews one that said more", peerGo, "	v.made[kind] = max(v.made[kind], made)\n", "	for k := range kind + 1 {\n		v.made[k] = max(v.made[k], made)\n	}\n	if v.made[Firm] > 0 {\n		v.made[Firm] = max(v.made[Firm], made)\n	}\n"),
		core("nodes that stay away are held against the group", doubtGo, "	c.set(d, false)\n	if d.looks > 0 {\n		c.looked--\n	}\n	d.looks, d.wake", "	d.missed = false\n	if d.looks > 0 {\n		c.looked--\n	}\n	d.looks, d.wake"),
		core("who stays away takes up a look", doubtGo, "	c.set(d, false)\n	if d.looks > 0 {\n		c.looked--\n	}\n	d.looks, d.wake", "	c.set(d, false)\n	d.looks, d.wake"),
		core("who is LEFT is asked to look", wordGo, "	return left || d != nil && d.missed\n", "	return d != nil && d.missed || left && d == nil\n"),
		node("a word needs no cookie", doubtsGo, "		return false\n	}\n	counts = true", "		counts = false\n	}\n	counts = true"),
		node("one cookie is good for all", doubtsGo, "	h.Write([]byte(name))\n", "	h.Write(nil)\n"),
		node("all processes give the same cookies", doubtsGo, "	_, _ = rand.Read(d.secret[:]) // never fails\n", "	_ = rand.Read\n"),
		node("a word is as old as its last copy", doubtsGo, "made := d.known[p.Index].clock.dates(m.Clock, came)", "made := came"),
		node("agents of before are sent words", doubtsGo, "if cookie == 0 || p == w.Word.Peer", "if p == w.Word.Peer"),
		node("words go on a network that does not work", doubtGo, "		if c.live(k, now) && (best", "		if (best"),
		node("words go on all networks", doubtsGo, "					if way < 0 || k == way {\n", "					if way != -2 {\n"),
		core("all watchers call", ruleGo, "	if rank < callers {\n", "	if rank >= 0 {\n"),
		core("all who ask are answered", wordGo, "d.asked.Len() < answered", "d.asked.Len() < c.size"),
		core("a node that hears nobody looks again and again", ruleGo, "	if d.looks > 0 && !c.well(now) {\n", "	if false {\n"),
		node("a missing network is none", doubtsGo, "e || d.rests() {", "e {"),
		node("silences grow while a network has no instance", doubtsGo, "d.core != nil && !d.rests() {", "d.core != nil {"),
		node("silences go on when a network has an instance again", doubtsGo, "		d.core.Restart(d.cfg.Clock())\n", ""),
		node("a cookie lasts for ever", doubtsGo, "m.Cookie != 0 || m.Statement != nil {", "m.Cookie != 0 {"),
		node("another list ends a LEFT", doubtsGo, "				if i, ok := e.cfg.Roster.Index(d.roster.Name(p)); ok {\n", "				if i, ok := e.cfg.Roster.Index(d.roster.Name(p)); ok && i < 0 {\n"),
		at("./netgossip/swim/wire", "a word about its sender is taken", codecGo, "	case member == peer:\n", "	case false:\n"),
		at("./netgossip/swim/wire", "a word by another list is taken", codecGo, "	case w.GetRoster() != tag:\n", "	case false:\n"),
		at("./netgossip/swim/wire", "a word about nobody is taken", codecGo, " || peer == 0 || peer > size:", ":"),
		at("./cmd/fencing-agent/gossip", "LEFT by doubt cannot be turned off", "cmd/fencing-agent/gossip/networks.go", "	if settings.Experimental.LeftByDoubt {\n", "	if true {\n"),
		pub("a doubt outlives an answer", " && !m.AnsweredSince(s.Peer, s.Since) {", " {"),
		pub("a node that stood still publishes doubts", "	if now < c.stall.holdLeft {\n		wait := before\n", "	if false {\n		wait := before\n"),
		pub("the doubted are not seen", "	avail := c.view.Seen.And(c.rosters.expected).Minus(p.doubted)\n", "	c.view.Seen = c.view.Seen.Minus(p.doubted)\n	avail := c.view.Seen.And(c.rosters.expected)\n"),
		pub("doubts are not published", ".Minus(p.doubted)\n", "\n"),
		pub("who is doubted is unreachable", "			why = LeftDoubted\n", "			why = LeftUnreachable\n"),
		at(watchdogs, "doubts keep the numbers of the list before", "watchdog/rosters.go", "netgossip.Silence{Peer: k, Since: s.Since})", "netgossip.Silence{Peer: s.Peer, Since: s.Since})"),
	}
}

// lookMutants are the guards of looks among samples and sweeps.
func lookMutants() []mutant {
	const (
		lookGo   = "netgossip/probing/look.go"
		sampleGo = "netgossip/probing/sample.go"
		orderGo  = "netgossip/probing/schedule.go"
		sweepGo  = "netgossip/probing/sweep.go"
	)
	in := func(what, file, from, to string) mutant {
		m := one("doubt", what, file, from, to)
		m.in = []string{"./netgossip/probing"}
		return m
	}
	return []mutant{
		in("a look does not hold the vouch back", lookGo, "		x.open = append(x.open, p)\n", ""),
		in("a missed look is a missed sample", sampleGo, "s.setAside(p); p.looked() {", "s.setAside(p); false {"),
		in("a missed look is a reason for extra samples", sampleGo, "missed || !p.looked()", "true"),
		in("a look holds the vouch back in a sweep", sweepGo, "	s.shedLooks(now)\n", ""),
		in("a sweep sheds the samples among the looks", sweepGo, "p.sampled = p.drawn; p.drawn != 0 {", "false {"),
		in("looks are shed in small groups, too", sweepGo, " - s.params.RoundTime(len(s.all))\n", " - s.params.EvidenceMaxAge*3/5\n"),
		in("who is shed is not set aside", sweepGo, "		s.setAside(p)\n", ""),
		in("what a sweep ends is vouched for", sampleGo, "s.samples.open[:0], s.samples.vouched\n", "s.samples.open[:0], s.samples.last\n"),
		in("an answered look is a sample", sampleGo, "	if !p.looked() {\n		late :=", "	if true {\n		late :="),
		in("who is looked at is no sample", sampleGo, "s.sweep.blind() || p.drawn != 0 ||", "s.sweep.blind() || p.sampled != 0 ||"),
		in("the answer to a look is one to the sample after it", sampleGo, "p.proven < max(p.sampled, p.drawn) {", "p.proven < p.sampled {"),
		in("a late sample makes everybody wait", lookGo, "		by = min(by, p.drawn", "		by = max(by, p.drawn"),
		in("a change of mind takes the probe of a look back", orderGo, "p.asked == 0 && p.sampled == 0 && !s.Sweeping(p)", "p.asked == 0 && !s.Sweeping(p)"),
	}
}
