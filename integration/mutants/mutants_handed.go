package main

// handedMutants are the guards of what members hand on.
func handedMutants() []mutant {
	const (
		factsGo  = "watchdog/facts.go"
		sentGo   = "watchdog/sentence.go"
		agentsim = "./integration/agentsim"
	)
	return []mutant{
		told("who is configured to believe nothing believes others", factsGo, "if !v.cfg.Outside || w.trial", "if w.trial"),
		told("a death that was told hides the proof by sentence", "watchdog/sentenced.go", "w.death.handedOn() && w.hearsay == 0)", "w.death.Hearsay && w.hearsay == 0)"),
		told("nobody hears of a contradiction", factsGo, "		f.Kind = netgossip.FactContradicted\n", ""),
		told("nobody takes a contradiction", factsGo, "			v.defy(p, f.Boot)\n", "			w.defied = f.Boot\n"),
		told("deaths that were told are not handed on", factsGo, "		f.Kind = netgossip.FactKind(slices.Index(outside[:], d.Proof)) //nolint:gosec // it is in there\n", ""),
		told("a fact of another boot counts", factsGo, "	if f.Boot != v.knownBoot(p) || w.defied == f.Boot {", "	if w.defied == f.Boot {"),
		told("what a member said long ago counts", factsGo, "st.Facts[0].Kind == 0 || now.Sub(anchor) > v.cfg.MaxAge {", "st.Facts[0].Kind == 0 || now.Sub(anchor) > 1000*v.cfg.MaxAge {"),
		told("who is told by others announces it, too", factsGo, "if proofOf(f.Kind) == 0 || f.Teller != own {", "if proofOf(f.Kind) == 0 || own == 0 {"),
		told("a death is announced each time it has its turn", factsGo, "member && v.peers[p].spread != f.Boot {", "member {"),
		told("a contradiction waits for its turn", factsGo, "if f.Kind == netgossip.FactContradicted {\n					all[", "if false {\n					all["),
		told("a contradiction is nothing to who has never met the node", factsGo, "f.Name == name && f.Boot == boot {", "f.Name == name && f.Boot == boot && boot == c.knownBoot(p) {", "./cmd/fencing-agent/agent"),
		told("contradictions keep all else out for ever", factsGo, "		room-- // contradictions", "		room -= 0 // contradictions"),
		told("a boot that has died since is called contradicted", factsGo, "	case w.defied == known && d.Proof != 0 && d.Boot == known && !d.handedOn():", "	case false:"),
		told("time proves the death of no known boot in place of one that was told", "watchdog/proof.go", "w.death.handedOn() && w.death.Boot == w.boot)", "w.death.handedOn())"),
		told("a trial that goes on wakes the loop at once, for ever", "watchdog/told.go", "	if !over {\n		v.out.Wake", "	{\n		v.out.Wake"),
		told("facts that find no room are never handed on", factsGo, "turn := int64(now)/int64(factsTurn) + int64(v.roster.Self)", "turn := int64(v.roster.Self)"),
		told("a condemned node hands facts on", "watchdog/core.go", "		st.Facts = [netgossip.MaxFacts]netgossip.Fact{}\n", ""),
		told("a sentence is handed on by who has it from others", factsGo, "w.boot == known && w.hearsay == 0 && now", "w.boot == known && now"),
		told("one member's word is enough for a sentence", "watchdog/sentenced.go", "r.Boot != f.Boot || r.timeout != f.Timeout || r.Teller == teller || now", "r.Boot != f.Boot || r.timeout != f.Timeout || now"),
		told("two that differ agree on a sentence", "watchdog/sentenced.go", "r.timeout != f.Timeout || r.Teller == teller", "r.Teller == teller"),
		told("what a member said of a sentence long ago counts", "watchdog/sentenced.go", " || now.Sub(r.At) > sentenceNews {\n		*r", " {\n		*r"),
		told("a sentence is shorter than any watchdog can be set to", "watchdog/sentenced.go", "f.Timeout < leastSentence || ", ""),
		told("a sentence by hearsay outlives what its boot says on the LUN", "watchdog/sentenced.go", "	if v.denies(p, w) {", "	if false {"),
		told("a death by hearsay is the agent's own for good", "watchdog/sentenced.go", "w.death.Boot != w.boot || w.death.handedOn() && w.hearsay == 0)", "w.death.Boot != w.boot)"),
		told("a death by hearsay outlives what its boot writes", "watchdog/sentenced.go", " || v.wroteSlot(now, p, &w.death)) {\n		v.defy", ") {\n		v.defy"),
		told("sentences are not handed on", factsGo, "		f.Kind, f.Timeout = netgossip.FactSentence, w.term", "		return netgossip.Fact{}", watchdogs, agentsim),
		told("a sentence of a node that is seen is taken by hearsay", "watchdog/sentenced.go", "	if _, sees := v.whoSees(now, p); sees {\n		return\n	}\n", ""),
		told("a sentence is taken by hearsay where there is no LUN", "watchdog/sentenced.go", "	if !v.cfg.Hold || f.Boot", "	if f.Boot"),
		told("a sentence by hearsay bars its node", "watchdog/sentenced.go", "w.sentenced == w.boot && w.hearsay == 0 {", "w.sentenced == w.boot {"),
		told("a sentence that its node knows nothing of stands", "watchdog/sentenced.go", "		w.sentenced, w.hearsay = 0, 0\n		v.defy(p, st.Boot)\n		return\n", "		return\n"),
		told("a sentence by hearsay counts from then when the node tells it", "watchdog/sentenced.go", "		w.sentenced, w.hearsay = 0, 0 // it counts from now\n", "		w.hearsay = 0\n"),
		told("a death by hearsay outlives what was heard of its boot", "watchdog/sentenced.go", "(v.merger.Sighted(p) > w.death.At || ", "("),
	}
}
