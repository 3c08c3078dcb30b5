package main

// inquiryMutants are the guards of how the claims that a proof by time lacks are asked for, and of what older agents
// are told of claims (docs/adr/0023).
func inquiryMutants() []mutant {
	at := func(pkg, what, file, from, to string) mutant {
		m := one("inquiry", what, file, from, to)
		m.in = []string{pkg}
		return m
	}
	core := func(what, from, to string) mutant { return at(watchdogs, what, claimsGo, from, to) }
	const (
		probing    = "./netgossip/probing"
		scheduleGo = "netgossip/probing/schedule.go"
		wire       = "./netgossip/swim/wire"
		wireGo     = "netgossip/swim/wire/statement.go"
	)
	return []mutant{
		at(probing, "a sweep asks briefly whose statement is wanted", scheduleGo, "		return p, !p.curious, 0", "		return p, true, 0"),
		at(probing, "who was asked by a sweep is not asked again", scheduleGo, "		if p.curious { // its", "		if false { // its"),
		core("who has claimed is asked again", "now.Sub(anchor) > claimAge/2 || !open", "now.Sub(anchor) >= 0 || !open"),
		core("who was asked long ago is not asked", "st == nil || now.Sub(anchor) > claimAge/2 || ", "st == nil || now.Sub(anchor) > time.Hour || "),
		core("who has answered and does not claim is not asked", " || !open.Minus(st.Lost).IsEmpty()))", "))"),
		core("nobody waits for the others to notice", "soon := now.Add(inquiryDelay)", "soon := now"),
		core("another victim brings the rounds closer", "			soon = max(soon, q.last.Add(inquiryPause))\n", "			_ = q.last\n"),
		core("another victim waits for the pause of the one before", "fresh := !open.Minus(q.about).IsEmpty(); fresh", "fresh := q.last == 0; fresh"),
		core("the first claim of another waits for the pause", " || !heard.Minus(q.heard).IsEmpty()", ""),
		core("each claim brings the next round, again and again", "q.about, q.heard = open, heard", "q.about = open"),
		core("the pauses do not grow", "min(2*q.pause, inquirySlowest)", "q.pause"),
		core("the pauses grow for ever", "min(2*q.pause, inquirySlowest)", "2 * q.pause"),
		core("there is one round", "q.last, q.next = now, now.Add(q.pause)", "q.last, q.next = now, boottime.Never"),
		core("all rounds are on one network", "	q.turn++\n", ""),
		core("after the proof the rest is asked", "			v.out.Ask = v.merger.Ways(now, roster.Set{}, q.turn) // who", "			// who"),
		core("the end is told in each step", "			q.about, q.heard = roster.Set{}, roster.Set{}\n			v.out", "			v.out"),
		core("older agents count young claims", "w.statement.Guard.Horizon+v.chance)", "w.statement.Guard.Horizon)"),
		at(watchdogs, "who does not claim asks", proofGo, "put(&open, p, v.lost.Has(p) && ", "put(&open, p, true || v.lost.Has(p) && "),
		at(watchdogs, "who could not prove it by claims asks", proofGo, "(in.Majority || v.excludedBy(now, p)))", "true)"),
		at(watchdogs, "a question is put in each step", "watchdog/prover.go", "v.in, v.out = *in, proverOutput{Wake: boottime.Never}", "v.in, v.out = *in, proverOutput{Wake: boottime.Never, Ask: v.out.Ask}"),
		at(watchdogs, "each is asked on all networks", "netgossip/merge.go", "				ways[network].Add(p)\n				break\n", "				ways[network].Add(p)\n"),
		at(watchdogs, "each is asked on the first network", "netgossip/merge.go", "network := (p + turn + k) % len(m.up)", "network := k"),
		at(probing, "those before are still asked", scheduleGo, "	s.asks.start(s.all, now, 0, func(p *Peer) bool { return wanted(p.Index) && !p.lost })\n", "	before := s.asks.queue\n	s.asks.start(s.all, now, 0, func(p *Peer) bool { return wanted(p.Index) && !p.lost })\n	if len(s.asks.queue) == 0 {\n		s.asks.queue = before\n	}\n"),
		at(probing, "all are asked at once", scheduleGo, "		s.asks.gap = s.params.RoundTime(n) / time.Duration(n)\n", "		s.asks.gap = 0\n"),
		at(probing, "the lost are asked", scheduleGo, "wanted(p.Index) && !p.lost })", "wanted(p.Index) })"),
		at(probing, "wanted peers are told of news instead", scheduleGo, "		s.AskStatement(p, now)\n	}\n	if s.renudge", "		s.nudge(p, now)\n	}\n	if s.renudge"),
		at("./netgossip/swim", "nobody is asked", "netgossip/swim/evidence.go", "		e.schedule.Ask(r.ask.Has, now)\n", ""),
		at(wire, "older agents read young claims", wireGo, "setToWire(s.LongLost),", "setToWire(s.Lost),"),
		at(wire, "the claims of older agents count for nothing", wireGo, "lost.Union(lately),", "lately,"),
		at(wire, "young claims stand for as long as old ones", wireGo, "		LongLost:     lost,\n", "		LongLost:     lost.Union(lately),\n"),
		at("./integration/sim", "nobody asks for claims", proofGo, "	v.inquire(now, open)\n", "	_ = open\n"),
	}
}
