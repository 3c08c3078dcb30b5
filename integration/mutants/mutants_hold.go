package main

// holdMutants are the guards of the hold by the LUN.
func holdMutants() []mutant {
	const (
		echoesGo = "diskquorum/echoes.go"
		coverGo  = "diskquorum/cover.go"
		holdGo   = "watchdog/hold.go"
		lanesGo  = "diskquorum/lanes.go"
	)
	in := func(pkg, rule, what, file, from, to string) mutant {
		m := one(rule, what, file, from, to)
		m.in = []string{pkg}
		return m
	}
	const lun, sim = "./diskquorum", "./integration/sim"
	return []mutant{
		in(lun, "E1", "a ping is dated when it is read back", echoesGo, "		a.take(slot, &rec, a.dateOf(echoed))", "		if a.dateOf(echoed) > 0 {\n			a.take(slot, &rec, c.Started)\n		}"),
		in(lun, "E2", "a slow read moves echoes", echoesGo, "		if prompt {", "		if prompt || true {"),
		in(lun, "E3", "a ping of any process dates", echoesGo, "p.Nonce != e.nonce || p.Counter == 0", "p.Counter == 0"),
		in(lun, "E3", "a ping of long ago dates as the one that has its place", echoesGo, " || e.count-p.Counter >= pingsKept {", " {"),
		in(lun, "E4", "what was said before outlives the word that its writer lives", echoesGo, "	case date == 0 && same && rec.Lives:\n		*p = testified{Echo: *rec}\n", ""),
		in(lun, "E4", "an older word takes the place of a newer one", echoesGo, "same && rec.Ping.Counter <= p.Ping.Counter:", "same && rec.Ping.Counter == p.Ping.Counter:"),
		in(lun, "H1", "the newest date is that of all", coverGo, "			return w.date, true", "			return c.words[0].date, true"),
		in(lun, "H1", "words never grow old", coverGo, "p.date == 0 || now >= p.date.Add(dated) ||", "p.date == 0 ||"),
		in(lun, "H1", "who lives is in S", coverGo, "		case !p.Lives:\n", "		case true:\n"),
		in(lun, "H1", "a word by two lists counts", coverGo, " || !p.Settled ||", " ||"),
		in(lun, "H1", "a word by another list counts", coverGo, " || !a.sameList(&p.Echo) ||", " ||"),
		in(lun, "H2", "nobody has to be missed", coverGo, "covered(n, in, &missing) {\n			return w", "true {\n			return w"),
		in(lun, "H2", "half of the list misses", coverGo, "2*missing[z] <= n {", "2*missing[z] < n {"),
		in(watchdogs, "H2", "who was seen a moment ago is missed", holdGo, "at != 0 && now.Sub(at) <= window {", "at != 0 && now.Sub(at) <= 0*window {"),
		in(sim, "H3", "a grant to others ends no hold", decideGo, "	case in.Excluded:", "	case false:"),
		in(lun, "H3", "half of the others isolates a node", coverGo, "isolating >= quorum", "isolating > 0"),
		in(lun, "H3", "who counts this node isolates it", coverGo, " && !p.View.Has(a.roster.Self):", ":"),
		in(sim, "H4", "nobody asks", decideGo, "	case in.Asking && in.HoldUntil > in.Now", "	case false && in.HoldUntil > in.Now"),
		in(watchdogs, "H5", "a hold is quorum", decideGo, "Reason: ReasonNobodyLives, Until: in.Vacant}", "Reason: ReasonNobodyLives, Until: in.Vacant, Quorum: true}"),
		in(sim, "H5", "a node that holds says LEFT of itself", "watchdog/publication.go", "d.Quorum || d.Action == Hold || ", "d.Quorum || "),
		in(sim, "H6", "silence is a ground", strikeGo, "	if c.hears() {\n", "	if false {\n"),
		in(watchdogs, "H6", "a ground of the moment is enough", holdGo, "h.heard.Ground >= h.ground.Add(window)", "h.heard.Ground > 0"),
		in(lun, "H6", "old words are a ground", coverGo, "h.Ground = missed[len(missed)-quorum]", "h.Ground = now"),
		in(watchdogs, "M1", "claims cover time in which the node did not live", holdGo, "(!lives || c.hold.lived", "(c.hold.lived"),
		in(watchdogs, "M1", "claims are not what is begun again", proofGo, "now.Sub(max(w.unseen, v.alone))", "now.Sub(w.unseen)"),
		in(watchdogs, "M2", "a claim outlives a stop", holdGo, "!lives || c.hold.lived && now >= permitted.Add(lapse)", "!lives"),
		in(watchdogs, "hold", "a permission comes back when the decision that ended it is over", holdGo, "until > now && !h.overruled:", "until > now:"),
		in(sim, "H4", "who was decided against asks again when the decision is over", holdGo, " && !(c.hold.overruled && c.hold.heard.Others)", ""),
		in(sim, "H4", "nobody asks again after a decision", holdGo, "!(c.hold.overruled && c.hold.heard.Others)", "!c.hold.overruled"),
		in(lun, "H6", "who is named by the latest grant is fed by it", "diskquorum/cover.go", " || !p.Feeding || p.Holding || p.Token", " || p.Token"),
		in(watchdogs, "hold", "who finds its peers a moment later says LEFT of itself", holdGo, "const healGrace = 2 * time.Second", "const healGrace = 0 * time.Second"),
		in(sim, "hold", "a busy device writes no echo blocks", echoesGo, "	if !e.spoken || a.dirty ||", "	if true || a.dirty ||"),
		in(lun, "hold", "a write is parted from its read", echoesGo, " || a.sinceRead > 0 && now >= a.readDue(in) {", " {"),
		in(lun, "hold", "a grant waits for echo blocks", echoesGo, "a.dirty || a.granted ||", "a.dirty ||"),
		in(lun, "B3", "a phase waits for ever for a copy that failed, while echo blocks are read", lanesGo, "(!l.inFlight || l.echo || l.asks) {", "!l.inFlight {"),
	}
}
