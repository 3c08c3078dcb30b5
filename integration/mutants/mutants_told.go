package main

// toldMutants are the guards of what is told from outside, and of what is handed on.
func toldMutants() []mutant {
	const (
		toldGo    = "watchdog/told.go"
		slotGo    = "watchdog/told_slot.go"
		factsGo   = "watchdog/facts.go"
		sentGo    = "watchdog/sentence.go"
		controlGo = "api/publish/control.go"
		beliefGo  = "k8s/belief/belief.go"
		publish   = "./api/publish"
		belief    = "./k8s/belief"
		agentsim  = "./integration/agentsim"
	)
	of := func(what, file, from, to string, in ...string) mutant {
		m := one("told", what, file, from, to)
		if m.in = in; len(in) == 0 {
			m.in = []string{watchdogs}
		}
		return m
	}
	return []mutant{
		of("any proof can be told", toldGo, "	case !a.word.Proof.told():", "	case false:"),
		of("who is configured to believe nothing believes", toldGo, "	case !c.cfg.Outside:", "	case false:"),
		of("who is configured to believe nothing believes others", factsGo, "if !c.cfg.Outside || w.trial", "if w.trial"),
		of("a node that is no member is looked up", toldGo, "	case !member || !c.rosters.expected.Has(p):", "	case !member:"),
		of("a node is told of its own death", toldGo, "	case p == c.cfg.Roster.Self:\n		return no(", "	case false:\n		return no("),
		of("who has no quorum believes", toldGo, "	case !c.soleSide(now):", "	case false:"),
		of("a half at odds believes", toldGo, "!d.Quorum || d.Action == Hold || c.apart() {", "!d.Quorum || c.apart() {"),
		of("a half that goes by the API server believes", toldGo, "c.split.Split == tie.Won && c.split.Until > now\n", "c.split.Split == tie.Won && c.split.Until > now || c.cfg.API && !c.granted\n"),
		of("a half that has lost the LUN and goes by the API server believes", toldGo, "c.granted && c.split.Split == tie.Won && c.split.Until > now\n", "c.granted && (c.split.Split == tie.Won || c.cfg.API)\n"),
		of("a boot that nobody knows is believed", toldGo, "	case known == 0:", "	case false:"),
		of("a former boot ends the present one", toldGo, "	case boot != known || w.unmet():", "	case w.unmet():"),
		of("a boot that the LUN alone has shown is no matter", toldGo, "	case boot != known || w.unmet():", "	case boot != known:"),
		of("two machines are one", toldGo, "	case w.twins || w.returned > 0:", "	case false:"),
		of("a boot that has defied a word is believed to be dead again", toldGo, "	case w.defied == boot:", "	case false:"),
		of("a node that is seen is believed to be dead", toldGo, "	case c.view.Seen.Has(p) || c.view.Counted.Has(p) || c.voices.heard.Has(p):", "	case false:"),
		of("what others see is no matter", toldGo, "	if m, sees := c.whoSees(now, p); sees {\n		return no(", "	if m, sees := c.whoSees(now, p); sees && false {\n		return no("),
		of("whom others count is no matter", toldGo, "(st.Seen.Has(p) || st.View.Has(p))", "st.Seen.Has(p)"),
		of("what was heard before the word is no matter", toldGo, "heard > 0 && now.Sub(heard) <= c.cfg.MaxAge {", "heard > 0 && now < heard {"),
		of("what is heard during a trial is no matter", toldGo, "		if why := c.signs(now, p, w, t.boot, t.since); why != 0 {", "		if why := c.signs(now, p, w, t.boot, now); why != 0 {"),
		of("what is written during a trial is no matter", toldGo, "since).Moved {", "since).Moved && false {"),
		of("a word is believed on the spot", toldGo, "	silent := c.unanswered(t.since)", "	silent := c.unanswered(0)"),
		of("members that have not answered are not asked", toldGo, "	c.fx.Ask, t.asked = ways, now", "	t.asked = now"),
		of("who has not answered agrees", toldGo, "	case !silent.IsEmpty() && over:", "	case !silent.IsEmpty() && over && false:"),
		of("the slot is not watched", toldGo, "	case verdict == slotAgrees || verdict == slotSilent && over:", "	default:"),
		of("a moment is enough for the slot", slotGo, "		case slot.Looked && slot.Still:", "		case slot.Looked:"),
		of("a slot that cannot be read stands still", slotGo, "		case slot.Looked || slot.Reads && slot.Torn:", "		case slot.Looked:"),
		of("a LUN that was never opened is none", slotGo, "	if c.lun.arbiter == nil && !c.cfg.LUN {", "	if c.lun.arbiter == nil {"),
		of("who has lost the LUN believes without it", slotGo, "	if m, reads := c.whoReads(); reads {", "	if m, reads := c.whoReads(); reads && false {"),
		of("the end of a trial stands for a slot that was not watched for long enough", slotGo, "now.Sub(t.since) < slotLimit:\n			return slotWatched, why", "now.Sub(t.since) < slotLimit:\n			return slotSilent, why"),
		of("a slot is watched for ever", slotGo, "const slotLimit = 2 * time.Minute", "const slotLimit = 2 * time.Hour"),
		of("a death that was told outlives the answer of its boot", toldGo, "w.boot == d.Boot && w.lived > d.At || c.merger.Sighted(p) > d.At || spoke", "spoke"),
		of("a death that was told is shown while others see the node", toldGo, "!c.voices.heard.Has(p) && !c.seenByCounted(now, p))", "!c.voices.heard.Has(p))"),
		of("a boot that has defied a word may be called dead again", toldGo, "	w.defied = boot // a trial", "	// a trial"),
		of("a trial that is contradicted is forgotten", toldGo, "	w.defied = boot // a trial", "	w.defied, w.trial.since = boot, 0 // a trial"),
		of("a boot that was told dead and writes its slot stays dead", toldGo, "at > d.At || c.wroteSlot(now, p, d) {", "at > d.At {"),
		of("a death that was told hides the proof by time", proofGo, "claimed.Minus(v.fenced.Minus(v.handedOn()))", "claimed.Minus(v.fenced)"),
		of("a death that was told hides the proof by another boot", proofGo, " || w.death.Boot == w.boot && !w.death.handedOn():", " || w.death.Boot == w.boot:"),
		of("a death that was told hides the proof by sentence", sentGo, "w.death.handedOn() && w.hearsay == 0)", "w.death.Hearsay && w.hearsay == 0)"),
		of("a boot that has defied a word by its answer may be called dead again", proofGo, "		w.defied = w.boot // P9\n", ""),
		of("nobody hears of a contradiction", factsGo, "		f.Kind = netgossip.FactContradicted\n", ""),
		of("nobody takes a contradiction", factsGo, "			c.proof.defy(p, f.Boot)\n", "			w.defied = f.Boot\n"),
		of("deaths that were told are not handed on", factsGo, "		f.Kind = factKind(d.Proof)\n", ""),
		of("a fact of another boot counts", factsGo, "	if f.Boot != c.knownBoot(p) {", "	if false {"),
		of("what a member said long ago counts", factsGo, "|| now.Sub(anchor) > c.cfg.MaxAge {", "|| now.Sub(anchor) > 1000*c.cfg.MaxAge {"),
		of("who is told by others announces it, too", factsGo, "if proofOf(f.Kind) == 0 || f.Teller != own {", "if proofOf(f.Kind) == 0 || own == 0 {"),
		of("a death is announced each time it has its turn", factsGo, "member && c.proof.peers[p].spread != f.Boot {", "member {"),
		of("a contradiction waits for its turn", factsGo, "if f.Kind == netgossip.FactContradicted {\n					all[", "if false {\n					all["),
		of("a former agent's death stays when others take it back", "cmd/fencing-agent/agent/kubedeaths.go", "taken := member && !k.own[name] && a.core.TakenBack(p, boot)", "taken := member && a.core.TakenBack(p, boot) && false", "./cmd/fencing-agent/agent"),
		of("a contradiction is nothing to who has never met the node", factsGo, "		w.takenBack = f.Boot // also", "		w.takenBack = w.boot // also", "./cmd/fencing-agent/agent"),
		of("a node that restarts is dead", toldGo, "	case c.pub.held.Has(p):", "	case false:"),
		of("a new boot in the slot is no matter", toldGo, "	case c.wroteAsAnother(now, p, w, boot):", "	case false:"),
		of("a former boot that stays in the slot is a new one", toldGo, "	return slot.Moved && slot.Record.State == diskquorum.SlotActive", "	return slot.Record != nil && slot.Record.State == diskquorum.SlotActive"),
		of("facts make a packet too long", "netgossip/swim/wire/codec.go", "len(out)-start > MaxSize && len(st.GetFacts()) > 0", "len(out)-start > MaxSize && len(st.GetFacts()) > 99", "./netgossip/swim/wire"),
		of("facts that find no room are never handed on", factsGo, "turn := int64(now)/int64(factsTurn) + int64(c.cfg.Roster.Self)", "turn := int64(c.cfg.Roster.Self)"),
		of("a condemned node hands facts on", "watchdog/core.go", "		st.Facts = [netgossip.MaxFacts]netgossip.Fact{}\n", ""),
		of("a sentence is handed on by who has it from others", factsGo, "w.boot == known && w.hearsay == 0 && now", "w.boot == known && now"),
		of("one member's word is enough for a sentence", factsGo, "r.boot != f.Boot || r.timeout != f.Timeout || r.by == m || now", "r.boot != f.Boot || r.timeout != f.Timeout || now"),
		of("two that differ agree on a sentence", factsGo, "r.timeout != f.Timeout || r.by == m", "r.by == m"),
		of("what a member said of a sentence long ago counts", factsGo, " || now.Sub(r.at) > sentenceNews {\n		*r", " {\n		*r"),
		of("a sentence is shorter than any watchdog can be set to", factsGo, "f.Timeout < leastSentence || ", ""),
		of("a sentence by hearsay outlives what its boot says on the LUN", sentGo, "	if c.denies(p, w) {", "	if false {"),
		of("a death by hearsay is the agent's own for good", sentGo, "w.death.Boot != w.boot || w.death.handedOn() && w.hearsay == 0)", "w.death.Boot != w.boot)"),
		of("a death by hearsay outlives what its boot writes", sentGo, " || c.wroteSlot(now, p, &w.death)) {\n		v.defy", ") {\n		v.defy"),
		of("a sentence by hearsay is annotated as the agent's own", "cmd/fencing-agent/agent/kubedeaths.go", "	if d.Hearsay {\n		return", "	if false {\n		return", "./cmd/fencing-agent/agent"),
		of("sentences are not handed on", factsGo, "		f.Kind, f.Timeout = netgossip.FactSentence, w.term", "		return netgossip.Fact{}", watchdogs, agentsim),
		of("a sentence of a node that is seen is taken by hearsay", factsGo, "	if _, sees := c.whoSees(now, p); sees {\n		return\n	}\n", ""),
		of("a sentence is taken by hearsay where there is no LUN", factsGo, "	if !c.cfg.Hold || f.Boot", "	if f.Boot"),
		of("a sentence by hearsay bars its node", sentGo, "w.sentenced == w.boot && w.hearsay == 0 {", "w.sentenced == w.boot {"),
		of("a sentence that its node knows nothing of stands", factsGo, "		w.sentenced, w.hearsay = 0, 0\n		v.defy(p, st.Boot)\n		return\n", "		return\n"),
		of("a sentence by hearsay counts from then when the node tells it", factsGo, "		w.sentenced, w.hearsay = 0, 0 // it counts from now\n", "		w.hearsay = 0\n"),
		of("a death by hearsay outlives what was heard of its boot", sentGo, "(c.merger.Sighted(p) > w.death.At || ", "("),
		of("anybody may tell", controlGo, "	if err := s.mayTell(ctx); err != nil {", "	if err := s.mayTell(ctx); err != nil && false {", publish),
		of("a user may tell", controlGo, "	case who.uid != 0:", "	case false:", publish),
		of("of whom the kernel tells nothing is root", controlGo, "	case !ok || !who.known:", "	case !ok:", publish),
		of("a sentence can be told", controlGo, "	case fencingv1.Proof_PROOF_OPERATOR:\n", "	case fencingv1.Proof_PROOF_OPERATOR, fencingv1.Proof_PROOF_SENTENCE:\n", publish),
		of("a power switch needs no reference", controlGo, "maxReference, outside)", "maxReference, outside && false)", publish),
		of("what was told counts once for each that repeats it", beliefGo, "voices := max(len(v.Reporters)-told, min(1, told))", "voices := len(v.Reporters)", belief),
		of("what was told is a voice beside those who have found it", beliefGo, "voices := max(len(v.Reporters)-told, min(1, told))", "voices := len(v.Reporters) - max(0, told-1)", belief),
	}
}
