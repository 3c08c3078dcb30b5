package main

// told is a guard of deaths that are told, in the package watchdog if in names no other.
func told(what, file, from, to string, in ...string) mutant {
	m := one("told", what, file, from, to)
	if m.in = in; len(in) == 0 {
		m.in = []string{watchdogs}
	}
	return m
}

// toldMutants are the guards of what is told from outside.
func toldMutants() []mutant {
	const (
		toldGo    = "watchdog/told.go"
		slotGo    = "watchdog/told_slot.go"
		controlGo = "api/publish/control.go"
		beliefGo  = "k8s/belief/belief.go"
		publish   = "./api/publish"
		belief    = "./k8s/belief"
	)
	return []mutant{
		told("any proof can be told", toldGo, "	case !said.Proof.told():", "	case false:"),
		told("who is configured to believe nothing believes", toldGo, "	case !v.cfg.Outside:", "	case false:"),
		told("a node that is no member is looked up", toldGo, "	case !member || !v.lists.expected.Has(p):", "	case !member:"),
		told("a node is told of its own death", toldGo, "	case p == v.roster.Self:\n		return no(", "	case false:\n		return no("),
		told("who has no quorum believes", toldGo, "	case !v.in.Sole:", "	case false:"),
		told("a half at odds believes", "watchdog/deaths.go", "!d.Quorum || d.Action == Hold || c.apart() {", "!d.Quorum || c.apart() {"),
		told("a half that goes by the API server believes", "watchdog/deaths.go", "c.split.Split == tie.Won && c.split.Until > now\n", "c.split.Split == tie.Won && c.split.Until > now || c.cfg.API && !c.granted\n"),
		told("a half that has lost the LUN and goes by the API server believes", "watchdog/deaths.go", "c.granted && c.split.Split == tie.Won && c.split.Until > now\n", "c.granted && (c.split.Split == tie.Won || c.cfg.API)\n"),
		told("a boot that nobody knows is believed", toldGo, "	case known == 0:", "	case false:"),
		told("a former boot ends the present one", toldGo, "	case boot != known || w.unmet():", "	case w.unmet():"),
		told("a boot that the LUN alone has shown is no matter", toldGo, "	case boot != known || w.unmet():", "	case boot != known:"),
		told("two machines are one", toldGo, "	case w.twins || w.returned > 0:", "	case false:"),
		told("a boot that has defied a word is believed to be dead again", toldGo, "	case w.defied == boot:", "	case false:"),
		told("a node that is seen is believed to be dead", toldGo, "	case v.in.View.Seen.Has(p) || v.in.View.Counted.Has(p) || v.in.Heard.Has(p):", "	case false:"),
		told("what others see is no matter", toldGo, "	if m, sees := v.whoSees(now, p); sees {\n		return no(", "	if m, sees := v.whoSees(now, p); sees && false {\n		return no("),
		told("whom others count is no matter", toldGo, "(st.Seen.Has(p) || st.View.Has(p))", "st.Seen.Has(p)"),
		told("what was heard before the word is no matter", toldGo, "heard > 0 && now.Sub(heard) <= v.cfg.MaxAge {", "heard > 0 && now < heard {"),
		told("what is heard during a trial is no matter", toldGo, "		if why := v.signs(now, p, w, t.Boot, t.since); why != 0 {", "		if why := v.signs(now, p, w, t.Boot, now); why != 0 {"),
		told("what is written during a trial is no matter", toldGo, "since).Moved {", "since).Moved && false {"),
		told("a word is believed on the spot", toldGo, "	silent := v.silent(v.in.View.Counted, t.since)", "	silent := v.silent(v.in.View.Counted, 0)"),
		told("members that have not answered are not asked", toldGo, "	v.askToo(now, members, q.turn)\n	q.asked = now", "	q.asked = now"),
		told("who has not answered agrees", toldGo, "	case !silent.IsEmpty() && over:", "	case !silent.IsEmpty() && over && false:"),
		told("the slot is not watched", toldGo, "	case verdict == slotAgrees || verdict == slotSilent && over:", "	default:"),
		told("a moment is enough for the slot", slotGo, "		case slot.Looked && slot.Still:", "		case slot.Looked:"),
		told("a slot that cannot be read stands still", slotGo, "		case slot.Looked || slot.Reads && slot.Torn:", "		case slot.Looked:"),
		told("a LUN that was never opened is none", slotGo, "	if v.slots == nil && !v.cfg.LUN {", "	if v.slots == nil {"),
		told("who has lost the LUN believes without it", slotGo, "	if m, reads := v.whoReads(); reads {", "	if m, reads := v.whoReads(); reads && false {"),
		told("the end of a trial stands for a slot that was not watched for long enough", slotGo, "now.Sub(t.since) < slotLimit:\n			return slotWatched, why", "now.Sub(t.since) < slotLimit:\n			return slotSilent, why"),
		told("a slot is watched for ever", slotGo, "const slotLimit = 2 * time.Minute", "const slotLimit = 2 * time.Hour"),
		told("a death that was told outlives the answer of its boot", toldGo, "w.boot == d.Boot && w.lived > d.At || v.merger.Sighted(p) > d.At || spoke", "spoke"),
		told("a death that was told is shown while others see the node", toldGo, "!v.in.Heard.Has(p) && !v.seenByCounted(now, p))", "!v.in.Heard.Has(p))"),
		told("a boot that has defied a word may be called dead again", toldGo, "	w.defied = boot // a trial", "	// a trial"),
		told("a trial that is contradicted is forgotten", toldGo, "	w.defied = boot // a trial", "	w.defied, w.trial.since = boot, 0 // a trial"),
		told("a boot that was told dead and writes its slot stays dead", toldGo, "at > d.At || v.wroteSlot(now, p, d) {", "at > d.At {"),
		told("a death that was told hides the proof by time", proofGo, "claimed.Minus(v.fenced.Minus(v.handedOn()))", "claimed.Minus(v.fenced)"),
		told("a death that was told hides the proof by another boot", proofGo, " || w.death.Boot == w.boot && !w.death.handedOn():", " || w.death.Boot == w.boot:"),
		told("a boot that has defied a word by its answer may be called dead again", proofGo, "		w.defied = w.boot // P9\n", ""),
		told("a former agent's death stays when others take it back", "cmd/fencing-agent/agent/kubedeaths.go", "taken := member && !k.own[name] && a.core.Deaths().TakenBack(now, p, boot)", "taken := member && a.core.Deaths().TakenBack(now, p, boot) && false", "./cmd/fencing-agent/agent"),
		told("a node that restarts is dead", toldGo, "	case v.in.Restarting.Has(p):", "	case false:"),
		told("a new boot in the slot is no matter", toldGo, "later := v.wroteAsAnother(now, p, w, boot); later != 0 {", "later := v.wroteAsAnother(now, p, w, boot); later != 0 && false {"),
		told("a trial outlives its node's membership", toldGo, "	if !v.lists.expected.Has(p) {\n		v.end(", "	if false {\n		v.end("),
		told("who told of a member that leaves is not answered", "watchdog/prover.go", "	v.retell(n)\n", ""),
		told("a former boot that stays in the slot is a new one", toldGo, "	if slot.Moved && slot.Record.State == diskquorum.SlotActive", "	if slot.Record != nil && slot.Record.State == diskquorum.SlotActive"),
		told("facts make a packet too long", "netgossip/swim/wire/codec.go", "len(out)-start > MaxSize && len(st.GetFacts()) > 0", "len(out)-start > MaxSize && len(st.GetFacts()) > 99", "./netgossip/swim/wire"),
		told("a sentence by hearsay is annotated as the agent's own", "cmd/fencing-agent/agent/kubedeaths.go", "	if d.Hearsay {\n		return", "	if false {\n		return", "./cmd/fencing-agent/agent"),
		told("anybody may tell", controlGo, "	if err := s.mayTell(ctx); err != nil {", "	if err := s.mayTell(ctx); err != nil && false {", publish),
		told("a user may tell", controlGo, "	case who.uid != 0:", "	case false:", publish),
		told("of whom the kernel tells nothing is root", controlGo, "	case !ok || !who.known:", "	case !ok:", publish),
		told("a sentence can be told", controlGo, "	case fencingv1.Proof_PROOF_OPERATOR:\n", "	case fencingv1.Proof_PROOF_OPERATOR, fencingv1.Proof_PROOF_SENTENCE:\n", publish),
		told("a power switch needs no reference", controlGo, "maxReference, outside)", "maxReference, outside && false)", publish),
		told("what was told counts once for each that repeats it", beliefGo, "voices := max(len(v.Reporters)-past-told, min(1, told))", "voices := len(v.Reporters) - past", belief),
		told("what was told is a voice beside those who have found it", beliefGo, "voices := max(len(v.Reporters)-past-told, min(1, told))", "voices := len(v.Reporters) - past - max(0, told-1)", belief),
	}
}
