package main

const (
	proofGo    = "watchdog/proof.go"
	claimsGo   = "watchdog/claims.go"
	peerSlotGo = "diskquorum/peerslot.go"
	carryGo    = "watchdog/rosters.go"
	disarmGo   = "watchdog/guard.go"
	strikeGo   = "watchdog/sentence.go"
	budgetGo   = "watchdog/budget.go"
	decideGo   = "watchdog/decide.go"
	watchdogs  = "./watchdog"
)

// proofMutants are the guards of the proofs of death, of giving up a guard, and of taking a
// node down. Their rule is not of docs/lease.md but of docs/adr/0010.
func proofMutants() []mutant {
	of := func(what, file, from, to string) mutant {
		m := one("death", what, file, from, to)
		m.in = []string{watchdogs, "./integration/sim"}
		return m
	}
	list := []mutant{
		of("half of the claims are enough", proofGo, "2*claims > v.lists.base().Size()", "2*claims >= v.lists.base().Size()-1"),
		of("one claim is enough", proofGo, "in.Majority && 2*claims > v.lists.base().Size()", "in.Majority && claims > 0"),
		of("a claim stands for a moment", proofGo, "v.missed(now, w) >= st.Guard.Horizon+ProofDelay)", "now.Sub(w.unseen) >= ProofDelay)"),
		of("no peer lives longer than a short watchdog", proofGo, "v.missed(now, w) >= st.Guard.Horizon+ProofDelay)", "now.Sub(w.unseen) >= min(st.Guard.Horizon, 28*time.Second)+ProofDelay)"),
		of("a sign of life in one direction is none", proofGo, "w.unseen = max(w.unseen, v.merger.Sighted(p)) // one way only: no contact, but life", "_ = p"),
		of("an unguarded node is claimed", proofGo, "v.guarded.Has(p) && v.missed(now, w", "now.Sub(w"),
		of("a node that stops is guarded", proofGo, "st.Guard.Kills() && !st.Stopping", "st.Guard.Kills()"),
		of("old claims count", claimsGo, "st == nil || now.Sub(anchor) > claimAge {", "st == nil || anchor < 0 {"),
		of("own knowledge does not speak against claims", proofGo, "|| !v.admissible(now, p) {", "{"),
		of("a record of an older boot is a reboot", proofGo, "w.sequence == 0 || rec.Sequence <= w.sequence ||", "w.sequence == 0 ||"),
		of("the sequences of a slot that is being claimed tell which boot is later", proofGo, "		if rec.State == diskquorum.SlotActive {", "		if true {"),
		of("a grant proves at once", proofGo, "return now.Sub(v.grantSince) >= need && ", "return "),
		of("a grant of the past proves the death of who was seen since", proofGo, "need && v.missed(now, w) >= need", "need"),
		of("a peer lives no longer than it was heard to say", proofGo, "max(w.statement.Guard.Horizon, bySlot) + ProofDelay", "max(w.statement.Guard.Horizon, 0*bySlot) + ProofDelay"),
		of("a countdown whose length nobody knows kills in time", proofGo, ".boot && rec.Statement.Guard.Kills()", ".boot && rec.Statement.Guard.Armed"),
		of("the proof outlives the return", proofGo, " = st.Boot, st.Machine, w.boot, 0, 0, 0\n	v.fenced.Remove(p)\n}", " = st.Boot, st.Machine, w.boot, 0, 0, 0\n}"),
		of("a contradicted death is remembered", proofGo, "			v.contradict(p, w.lived)\n", ""),
		of("what was answered before a death contradicts it", proofGo, " || lived <= w.death.At {", " {"),
		of("a slot from before a contradiction proves the death again", proofGo, "	w.death, w.sequence = Death{}, 0\n	v.fenced", "	w.death = Death{}\n	v.fenced"),
		of("the dead boot writes on the LUN, and its death is remembered", "watchdog/proof.go", "			v.contradict(p, now)\n", ""),
		of("a disarm is not announced", "watchdog/guard.go", "said.Armed = said.Armed && !g.wantsDisarm() && !g.release.yielded", "said.Armed = said.Armed && !g.release.done && !g.release.yielded"),
		of("a disarm waits for nobody", disarmGo, "!c.guard.Kills() || c.rosters.removed() || c.releaseKnown(now)", "true"),
		of("an answer from before the announcement counts", disarmGo, "anchor >= since.Add(letReach) && !st", "anchor >= 0 && !st"),
		of("a peer that takes the node for guarded knows", disarmGo, " && !st.Guarded.Has(c.cfg.Roster.Self) {\n			knows", " {\n			knows"),
		of("a half is told by gossip alone", disarmGo, "return !c.guard.Leases || c.united && c.slotShows(now)", "return true"),
		of("an agent arms while peers reckon with its predecessor", disarmGo, "	if c.guard.Armed {\n		return true\n	}\n	switch c.reach(0)", "	if true {\n		return true\n	}\n	switch c.reach(0)"),
		of("an agent that would go on arms at once", disarmGo, "	if c.guard.Armed {\n		return true\n	}\n	switch c.reach(0)", "	if c.guard.Armed || !c.guard.Fences {\n		return true\n	}\n	switch c.reach(0)"),
		of("an agent arms in a half at odds", disarmGo, "!c.guard.Leases && c.united || c.fx", "!c.guard.Leases || c.fx"),
		of("an agent arms in a tie that nobody has decided", disarmGo, "return !c.guard.Leases && c.united || c.fx.Decision.Reason == ReasonSplitWon", "return true"),
		of("no agent arms in a half", disarmGo, "return !c.guard.Leases && c.united || c.fx.Decision.Reason == ReasonSplitWon", "return false"),
		of("an isolated node obeys its disable file", decideGo, "if in.Guarded && !in.Released {", "if false {"),
		of("the kernel's last feed is forgotten", budgetGo, "b.Watchdog, b.Release = w, w", "b.Watchdog, b.Release = w, 0"),
		of("a node in maintenance is taken down", strikeGo, " || c.wantsDisarm()", ""),
		of("a node that boots is taken down", strikeGo, "d.Reason == ReasonStarting || !c.hadQuorum ||", ""),
		of("a node is taken down in a moment of weakness", strikeGo, "const strikeAfter = time.Second", "const strikeAfter = 0 * time.Second"),
		of("a node that stood still is taken down before it hears anybody", strikeGo, " || now < c.holdLeft", ""),
	}
	return append(list, carryMutants()...)
}

// carryMutants are the guards of what outlives a change of the list of members.
func carryMutants() []mutant {
	core := func(what, file, from, to string) mutant {
		m := one("death", what, file, from, to)
		m.in = []string{watchdogs}
		return m
	}
	sim := func(what, file, from, to string) mutant {
		m := one("death", what, file, from, to)
		m.in = []string{"./integration/sim"}
		return m
	}
	at := func(pkg, what, file, from, to string) mutant {
		m := one("death", what, file, from, to)
		m.in = []string{pkg}
		return m
	}
	withdrawn := one("death", "a proof that is taken back is a death", "cmd/fencing-agent/agent/deaths.go", "d.Proof == 0 {", "d.Proof > 9 {")
	withdrawn.in = []string{"./cmd/fencing-agent/agent"}
	whole := one("death", "those who knew of a stop take it with them when they leave the list", carryGo, "if c.vouchedFor(x, before) {", "if c.vouchedFor(x, before) || true {")
	whole.in = []string{"./integration/sim"}
	never := one("death", "no guard outlives a change of the list", carryGo, "if c.vouchedFor(x, before) {", "if c.vouchedFor(x, before) && false {")
	never.in = whole.in
	return []mutant{
		whole, never,
		sim("a copy of a machine ends the original", proofGo, "	if v.slots != nil {\n		slot :=", "	if v.slots != nil && false {\n		slot :="),
		sim("a witness without LUN waits for ever for the slot", proofGo, "	case !slot.Looked && late:\n", "	case false:\n"),
		sim("a witness that lost the LUN while it looked waits for ever", peerSlotGo, "start > since && now.Sub(start) <= 3*a.timing.Heartbeat+a.timing.IOTimeout", "start > since"),
		sim("a boot without LUN is never believed", proofGo, "Statement.Boot == w.former && !slot.Still:", "Statement.Boot == w.former:"),
		sim("nobody hears of two machines", proofGo, "put(&v.strangers, p, slot.Looked && slot.Moved && late)", "_ = late"),
		core("another machine that answers ends the first", proofGo, "	case w.elsewhere(st.Machine), ", "	case "),
		core("another machine that writes the slot ends the first", proofGo, "	case w.elsewhere(rec.Machine()), ", "	case "),
		core("a machine without identity is another one", proofGo, "w.machine != 0 && machine != 0 && w.machine", "w.machine"),
		core("an end is told by the slot and by the return", proofGo, "	case w.death.Proof == ProofBoot && w.death.Boot == w.boot: // its", "	case false: // its"),
		core("a victim's slot need not be active", proofGo, "rec.State == diskquorum.SlotActive && rec.Statement.Boot", "rec.Statement.Boot"),
		core("a slot of another boot speaks for the victim", proofGo, "rec.Statement.Boot == v.peers[p].boot && rec", "rec"),
		core("a victim's slot need not say that it is armed", proofGo, ".boot && rec.Statement.Guard.Kills()", ".boot"),
		core("a write that was under way tells of a disarm", disarmGo, "sequence >= r.mark+2 &&", "sequence >= r.mark+1 &&"),
		core("a write from before a disarm tells of it", disarmGo, " && now.Add(-age) > r.announced.Add(letReach)", ""),
		core("a write that did not land tells of a disarm", disarmGo, " && age >= 0 &&", " &&"),
		core("a second disarm waits for nobody", disarmGo, "r.announced, r.done = 0, false", "r.announced = 0"),
		core("the budget shrinks", "watchdog/rosters.go", "	if b.Horizon() < c.cfg.Budget.Horizon() {\n		return\n	}\n", ""),
		core("claims go on over a change of the list", proofGo, "		v.peers[p].unseen = max(v.peers[p].unseen, now)\n", "		_ = p\n"),
		sim("nobody doubts claims when the list changes", "watchdog/rosters.go", "		c.proof.doubt(now)\n		c.carryOver", "		c.carryOver"),
		core("a grant counts from before a change of the list", proofGo, "v.lost, v.grantSince = roster.Set{}, 0", "v.lost = roster.Set{}"),
		core("deaths are proven while two lists are taken up", proofGo, "	if !v.lists.settled() || !in", "	if !in"),
		core("one claim is enough in a half", proofGo, "claims == in.View.Counted.Len()", "claims > 0"),
		core("most claims are enough in a half", proofGo, "claims == in.View.Counted.Len()", "2*claims > in.View.Counted.Len()"),
		at("./netgossip", "a statement is not read again with another list", "netgossip/merge_renumber.go", "		peers[k].understand(m)\n", ""),
		at("./netgossip/probing", "open samples do not hold the vouch back", "netgossip/probing/sample.go", "			oldest = min(oldest, q.sampled)\n", "			_ = q\n"),
		at("./netgossip/probing", "a vouch is as young as the moment before an open sample", "netgossip/probing/sample.go", "min(upTo, x.starts[before-1])", "min(upTo, oldest-1)"),
		at("./netgossip/probing", "a sample as young as an open one is vouched for", "netgossip/probing/sample.go", "slices.BinarySearch(x.starts, oldest)", "slices.BinarySearch(x.starts, oldest+1)"),
		core("a made-up boot id proves a reboot", proofGo, "	case w.elsewhere(st.Machine), w.outlived(now, st.Stated):\n", "	case w.elsewhere(st.Machine):\n"),
		core("a made-up boot id in the slot proves a reboot", proofGo, "	case w.elsewhere(rec.Machine()), w.outlived(now, rec.Statement.Stated):\n", "	case w.elsewhere(rec.Machine()):\n"),
		core("clocks agree to the nanosecond", proofGo, "w.lived-boottime.Instant(clockSlack) > now-age", "w.lived > now-age"),
		core("the age of a boot is what the clock shows", "watchdog/core.go", "	st.Stated = boottime.Instant(now.Sub(c.cfg.Booted))\n", "	st.Stated = now\n"),
		at("./integration/agentsim", "the gossip ends before the magic close", "cmd/fencing-agent/agent/agent.go", "after which the watchdog may not be disarmed.\n	defer endFeeder()\n", "after which the watchdog may not be disarmed.\n"),
		withdrawn,
		at("./watchdog/wdt", "the watchdog of a killed agent that cannot end seems to be free", "watchdog/wdt/holder.go", "thread := d.leftBehind(dir, f); thread != \"\"", "thread := d.leftBehind(dir, f); thread == \"none\""),
		at("./procfs", "a killed agent that cannot end is said to serve, since another thread hangs", "procfs/procfs.go", "strings.HasPrefix(value, \"Z\")", "strings.HasPrefix(value, \"none\")"),
		at("./procfs", "a killed agent that cannot end is said to serve, since its first thread hangs", "procfs/procfs.go", "pending&sigKill != 0", "pending == 1"),
		at("./watchdog/wdt", "a killed agent whose first thread hangs is to be stopped", "watchdog/wdt/holder.go", "procfs.Killed(d.proc, pid)", "procfs.Killed(d.proc, -1)"),
		at("./watchdog/wdt", "a wish that changes nothing is not answered", "watchdog/wdt/feeder.go", "if same && s.Obeyed == told.Obeyed {", "if same {"),
		at("./integration/agentsim", "a node with nowayout says for ever that it is not guarded", "watchdog/wdt/feeder.go", "if same && s.Obeyed == told.Obeyed {", "if same {"),
		at("./cmd/fencing-agent/agent", "what the feeder said before a disarm is an answer to it", "cmd/fencing-agent/agent/guard.go", "return s.Obeyed >= g.disarming", "return true"),
		at("./watchdog", "a guard that is given up is claimed before the feeder has answered", "watchdog/sentence.go", " && !c.wantsDisarm() && !c.release.yielded", " && !c.wantsDisarm()"),
		core("a guard is doubted for ever", proofGo, "anchor > v.doubted || v", "anchor < 0 || v.doubted == 0 || v"),
		core("what was said before a change counts after it", proofGo, "anchor > v.doubted || v", "anchor > 0 || v"),
		core("a node that begins vouches for itself", carryGo, "	if before.fresh {\n		return false\n	}\n", ""),
		core("half of the old list vouches for a guard", carryGo, "2*most.And(c.rosters.membersOf(old)).Len() <= old.Size()", "2*most.And(c.rosters.membersOf(old)).Len() < old.Size()"),
		core("who goes by the old list alone vouches for a guard", carryGo, "	return took && st", "	return (took || !took) && st"),
		core("who goes by a third list vouches for a guard", carryGo, "!ref.IsZero() && ref != base.Ref() && !slices", "false && !slices"),
		core("a node vouches for its own guard", carryGo, "if m == x || !st.Guarded.Has(x)", "if !st.Guarded.Has(x)"),
		core("sets by another directory vouch for a guard", carryGo, " || st.RosterEpoch != c.cfg.Roster.Epoch || st.RosterDigest != c.cfg.Roster.Digest {", " {"),
		core("claims count of who goes by another list", claimsGo, "v.cfg.Succession != nil && !goesBy(&stands, v.lists.base())", "false && !goesBy(&stands, v.lists.base())"),
	}
}
