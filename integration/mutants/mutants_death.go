package main

// deathMutants are the guards of the proofs of death and of the giving up of a guard that the tests of
// package watchdog look at one by one.
func deathMutants() []mutant {
	const (
		met   = "w.boot, w.machine, w.former, w.sequence, w.lived, w.voiced = st.Boot, st.Machine, w.boot, 0, 0, 0"
		twins = "w.twins, w.death, w.returned = true, Death{}, 0"
		moved = "n.Set(v.guarded), n.Set(v.carried), n.Set(v.lost), n.Set(v.fenced)"
	)
	of := func(what, file, from, to string) mutant {
		m := one("death", what, file, from, to)
		m.in = []string{watchdogs}
		return m
	}
	return append([]mutant{
		of("everybody of a large group answers as soon as those of a small one", claimsGo, "max(claimAge, time.Duration(n)*200*time.Millisecond)", "claimAge"),
		of("nothing is late", claimsGo, "const ProofDelay = claimAge + settle", "const ProofDelay = claimAge"),
		of("the slot of a node in contact proves its end", proofGo, "if !seen.Has(p) && v.slots != nil {", "if v.slots != nil {"),
		of("to be seen is no sign of life", proofGo, "		if seen.Has(p) {\n			w.unseen = now\n		} else {", "		{"),
		of("a node that is seen again stays fenced", proofGo, "		if w.unseen > w.death.At {\n			v.fenced.Remove(p)\n		}\n", ""),
		of("a death is concluded again and again", proofGo, "if w.unseen > w.death.At {", "if w.unseen > 0 {"),
		of("a claim does not stand for what may be late", proofGo, "v.missed(now, w) >= st.Guard.Horizon+ProofDelay)", "now.Sub(w.unseen) >= st.Guard.Horizon)"),
		of("a machine that tells its identity later has none", proofGo, "	if st.Boot == w.boot && w.machine == 0 {\n		w.machine = st.Machine\n	}\n", ""),
		of("no boot is another boot", proofGo, "if st.Boot == w.boot || st.Boot == 0 {", "if st.Boot == w.boot {"),
		of("the sequences of one boot are those of the next", proofGo, met, "w.boot, w.machine, w.former, w.lived = st.Boot, st.Machine, w.boot, 0"),
		of("the machine of one boot is that of the next", proofGo, met, "w.boot, w.former, w.sequence, w.lived, w.voiced = st.Boot, w.boot, 0, 0, 0"),
		of("what has ended and comes back stays dead", proofGo, twins, "w.twins, w.returned = true, 0"),
		of("the end of a boot that answers again is still awaited", proofGo, twins, "w.twins, w.death = true, Death{}"),
		of("two machines are forgotten at once", proofGo, twins, "w.death, w.returned = Death{}, 0"),
		of("the first meeting is a return", proofGo, "	case w.boot != 0:\n		w.twins", "	default:\n		w.twins"),
		of("the first meeting is with a stranger", proofGo, "return w.boot != 0 && w.lived-", "return w.lived-"),
		of("another machine ends the one before while an end is awaited", proofGo, "w.twins, w.returned = false, 0\n	case w.boot", "w.twins = false\n	case w.boot"),
		of("a stranger is not named", proofGo, "		v.strangers.Add(p) // what", "		// what"),
		of("a boot that has the slot waits for a read", proofGo, "		case slot.Record != nil && slot.Record.Statement.Boot == w.boot:\n", ""),
		of("a slot that was not read stands still", proofGo, "case !slot.Looked, slot.Record.Statement.Boot == w.former", "case slot.Record != nil && slot.Record.Statement.Boot == w.former"),
		of("nobody looks at the slot that is waited for", proofGo, "			v.waits = true\n", ""),
		of("the slot is looked at for ever", proofGo, "v.strangers, v.waits = roster.Set{}, false", "v.strangers = roster.Set{}"),
		of("one reboot is an end in every step", proofGo, "At: now}, 0\n", "At: now}, w.returned\n"),
		of("the boot that answers is the one that has ended", proofGo, "Boot: w.former, At: now}, 0", "Boot: w.boot, At: now}, 0"),
		of("a slot tells one end with each read", proofGo, "rec.Sequence <= w.sequence || w.death.Boot == w.boot && !w.death.handedOn():", "rec.Sequence <= w.sequence:"),
		of("the machine in a slot is not noted", proofGo, "		if w.machine == 0 {\n			w.machine = rec.Machine()\n		}\n", ""),
		of("an older record makes a slot younger", proofGo, "w.sequence = max(w.sequence, rec.Sequence)", "w.sequence = rec.Sequence"),
		of("an end that the slot tells fences nobody", proofGo, "Boot: w.boot, At: now}\n		put(&v.fenced, p, !w.unmet())\n	}\n}\n\n// conclude", "Boot: w.boot, At: now}\n	}\n}\n\n// conclude"),
		of("what peers vouched for a guard is forgotten", proofGo, "v.doubted, v.carried = now, keep", "v.doubted = now"),
		of("no guard is doubted", proofGo, "v.doubted, v.carried = now, keep", "v.carried = keep"),
		of("what was known of a node is lost with its index", "watchdog/prover.go", "			peers[k] = v.peers[i]\n", "			_ = i\n"),
		of("the indices of witnesses stay", "watchdog/prover.go", "			peers[k] = v.peers[i]\n", "			peers[i] = v.peers[i]\n"),
		of("the times of a proof are those of the former list", "watchdog/prover.go", "	v.chance, v.inquiry = chanceDelay(to.Size()), inquiry{}\n	v.guarded", "	v.guarded"),
		of("a new node is guarded as who had its index", "watchdog/prover.go", moved, "v.guarded, n.Set(v.carried), n.Set(v.lost), n.Set(v.fenced)"),
		of("a new node is vouched for as who had its index", "watchdog/prover.go", moved, "n.Set(v.guarded), v.carried, n.Set(v.lost), n.Set(v.fenced)"),
		of("a new node is fenced as who had its index", "watchdog/prover.go", moved, "n.Set(v.guarded), n.Set(v.carried), n.Set(v.lost), v.fenced"),
		of("the prover goes by the former list", "watchdog/prover.go", "	v.roster, v.peers = to, peers\n", "	v.peers = peers\n"),
		of("claims go on over other indices", "watchdog/rosters.go", "	c.proof.doubt(c.stepped)\n", ""),
		of("a claim is due since a time ago", "watchdog/prover.go", "return max(0, w.statement.Guard.Horizon+ProofDelay-v.missed(now, w)), true", "return w.unseen.Add(w.statement.Guard.Horizon + ProofDelay).Sub(now), true"),
		of("a node that has just begun vouches among the most", carryGo, "case !stands.Fresh && before", "case before"),
		of("who has left the list in force vouches among the most", carryGo, "return took && st.Base() == l.chain[0].Ref()", "return took"),
		of("this node is none of the most", carryGo, "	most.Add(c.cfg.Roster.Self)\n", ""),
		of("the word of a fresh node vouches", carryGo, "return !st.Fresh && st.Chain ==", "return st.Chain =="),
	}, append(conclusionMutants(of), releaseMutants(of)...)...)
}

// conclusionMutants are the guards of a proof by time.
func conclusionMutants(of func(what, file, from, to string) mutant) []mutant {
	const byMajority = "Majority: d.Quorum && c.outcome == netgossip.Majority"
	return []mutant{
		of("a grant goes on over a gap", proofGo, "case v.grantSince == 0 || now >= v.grantUntil:", "case v.grantSince == 0:"),
		of("a grant of another tie goes on", proofGo, "	case !in.Won:\n		v.grantSince = 0\n", "	case !in.Won:\n"),
		of("a grant begins in every step", proofGo, "	v.grantUntil = in.Until\n", ""),
		of("a node that stops beside its majority proves", "watchdog/deaths.go", byMajority, "Majority: c.outcome == netgossip.Majority"),
		of("a node that is fed without its majority proves", "watchdog/deaths.go", byMajority, "Majority: d.Quorum"),
		of("a death is dated by the latest claim", proofGo, "claimed.Minus(v.fenced.Minus(v.handedOn())).Minus(in.View.Seen)", "claimed.Minus(in.View.Seen)"),
		of("who is seen is proven dead", proofGo, "claimed.Minus(v.fenced.Minus(v.handedOn())).Minus(in.View.Seen)", "claimed.Minus(v.fenced.Minus(v.handedOn()))"),
		of("a node believes that it is dead itself", proofGo, "if p == v.roster.Self || p >= len(v.peers) ||", "if p >= len(v.peers) ||"),
		of("who is not listed is proven dead", proofGo, "if p == v.roster.Self || p >= len(v.peers) ||", "if p == v.roster.Self ||"),
		of("a majority is one of the directory", proofGo, "2*claims > v.lists.base().Size()", "2*claims > v.roster.Size()"),
		of("a grant proves without the slot of the victim", proofGo, "	bySlot, agrees := v.slotHorizon(p)\n	return agrees && v", "	bySlot, _ := v.slotHorizon(p)\n	return v"),
		of("a grant that is new proves", proofGo, "now.Sub(v.grantSince) >= need && ", ""),
		of("a victim without a slot is armed", proofGo, "	if !ok || !v.guardedBySlot(p, rec) {\n		return 0, false\n	}\n", "	if !ok {\n		return 0, true\n	}\n	if !v.guardedBySlot(p, rec) {\n		return 0, false\n	}\n"),
		of("with a Lease the slot is asked", proofGo, "	if !v.in.BySlots {\n		return 0, true\n	}\n", ""),
		of("a guard that was given up does not speak against claims", proofGo, "(w.statement == nil || kills(w.statement)) && ", ""),
		of("who was met lately is dead by the word of others", proofGo, "kills(w.statement)) && !w.unmet() && w.fires() && (max(w.unseen, v.alone) == 0 || v.missed(now, w) >= ProofDelay)", "kills(w.statement)) && w.fires()"),
		of("a witness that has just booted believes nobody", proofGo, "(max(w.unseen, v.alone) == 0 || v.missed(now, w) >= ProofDelay)", "now.Sub(w.unseen) >= ProofDelay"),
		of("the claim of this node does not count", claimsGo, "	if v.lost.Has(p) {\n		n++\n	}\n", ""),
		of("claims of a node that is merely seen count", claimsGo, "	for m := range v.in.View.Counted.All() {\n		if st := v.fresh(now, m); st != nil && st.Lost.Has(p) {", "	for m := range v.in.View.Seen.All() {\n		if st := v.fresh(now, m); st != nil && st.Lost.Has(p) {"),
		of("a death by time is of no boot", proofGo, "w.death = Death{Proof: ProofTime, Boot: w.boot, At: now}", "w.death = Death{Proof: ProofTime, At: now}"),
	}
}

// releaseMutants are the guards of the giving up of a guard.
func releaseMutants(of func(what, file, from, to string) mutant) []mutant {
	return []mutant{
		of("a planned stop is not announced", "watchdog/guard.go", "return g.stopping || len(g.disarm) > 0", "return len(g.disarm) > 0"),
		of("a disarm signal is not announced", "watchdog/guard.go", "return g.stopping || len(g.disarm) > 0", "return g.stopping"),
		of("an answer to one announcement is one to the next", disarmGo, "r.announced, r.done = 0, false", "r.done = false"),
		of("a release is announced in every step", disarmGo, "	if r.announced == 0 {\n		r.announced", "	{\n		r.announced"),
		of("the slot of the time of the announcement is not noted", disarmGo, "			r.mark = c.lun.arbiter.Status(now).Sequence\n", ""),
		of("a release that is done is undone", disarmGo, "r.done = r.done || ", "r.done = "),
		of("a node that nobody relies on waits", disarmGo, "r.done || !c.guard.Kills() || c.rosters.removed()", "r.done || c.rosters.removed()"),
		of("a removed node waits", disarmGo, "r.done || !c.guard.Kills() || c.rosters.removed()", "r.done || !c.guard.Kills()"),
		of("a node does not know of its own release", disarmGo, "	knows.Add(c.cfg.Roster.Self)\n", ""),
		of("no answer is late", disarmGo, "const letReach = 500 * time.Millisecond", "const letReach = 0 * time.Millisecond"),
		of("half is one of the directory", disarmGo, "case 2*knows.Len() < c.rosters.base().Size()", "case 2*knows.Len() < c.cfg.Roster.Size()"),
		of("less than half knows of a release", disarmGo, "case 2*knows.Len() < c.rosters.base().Size() || c", "case knows.Len() < 0 || c"),
		of("half of one list is enough while there are two", disarmGo, "case 2*knows.Len() < c.rosters.base().Size() || c.outcome != netgossip.EqualSplit:", "case 2*knows.Len() < c.rosters.base().Size():"),
		of("the slot is waited for where no half lives by a grant", disarmGo, "return !c.guard.Leases || c.united", "return c.united"),
		of("half is enough where there are no slots", disarmGo, "	if c.lun.arbiter == nil {\n		return false\n	}", "	if c.lun.arbiter == nil {\n		return true\n	}"),
		of("a half at odds is released by its slot", disarmGo, "|| c.united && c.slotShows(now)", "|| c.slotShows(now)"),
		of("a half is released before its slot shows it", disarmGo, "|| c.united && c.slotShows(now)", "|| c.united"),
		of("a majority that knows is not enough", disarmGo, "		return reachMost\n", "		return reachHalf\n"),
		of("most of the older list are enough", disarmGo, "	case c.rosters.mostOfEach(knows):\n", "	case 2*knows.Len() > c.rosters.base().Size():\n"),
		of("a node is releasing when it has released", "watchdog/guard.go", "return g.disarmAsked() && !g.release.done }", "return g.disarmAsked() }"),
		of("a node is always releasing", "watchdog/guard.go", "return g.disarmAsked() && !g.release.done }", "return !g.release.done }"),
		of("a release without a LUN looks at the slot", disarmGo, "	if c.lun.arbiter == nil {\n		return false\n	}\n	s :=", "	s :="),
	}
}
