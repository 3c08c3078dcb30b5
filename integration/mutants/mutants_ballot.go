package main

// The rooms the mutants live in.
const (
	arbiterGo  = "diskquorum/arbiter.go"
	ballotGo   = "diskquorum/ballot.go"
	claimGo    = "diskquorum/claim.go"
	leaseGo    = "diskquorum/lease.go"
	lanesGo    = "diskquorum/lanes.go"
	scheduleGo = "diskquorum/schedule.go"
	sectorGo   = "diskquorum/sector.go"
	tableGo    = "diskquorum/table.go"
)

func allMutants() []mutant {
	var all []mutant
	for _, list := range [][]mutant{
		ballotMutants(),
		claimMutants(),
		tableMutants(),
		setMutants(),
		modeMutants(),
		voiceMutants(),
		leaseMutants(),
		feedMutants(),
		relayMutants(),
		survivalMutants(),
		proofMutants(),
		deathMutants(),
		inquiryMutants(),
		clusterMutants(),
		lifeMutants(),
		rosterMutants(),
		kubeLeaseMutants(),
		healMutants(),
		disputeMutants(),
		holdMutants(),
		sentenceMutants(),
		lossMutants(),
		guardMutants(), vouchedMutants(), releaseAndJudgeMutants(),
		storeMutants(),
		toldMutants(),
		orderMutants(),
		historyMutants(),
		memoryMutants(),
		handedMutants(),
		agentMutants(),
		operatorMutants(),
		setupMutants(),
		swimMutants(),
		doubtMutants(),
		dampingMutants(),
		lookMutants(),
		termsMutants(),
		lateMutants(), lunadminMutants(), oursMutants(), slowMutants(),
		probingMutants(),
		recoveryMutants(),
		nodefenceMutants(), fabricMutants(), watchdogMutants(), wordsMutants(),
		listMutants(),
		groupPolicyMutants(),
		deviceMutants(),
		possibleMutants(),
		remediationMutants(),
		crashMutants(),
		distributedMutants(),
		storageMutants(),
		reportMutants(),
		foundMutants(),
		consumerMutants(),
		startMutants(),
	} {
		all = append(all, list...)
	}
	return all
}

// one is a mutant with a single edit.
func one(rule, what, file, from, to string) mutant {
	return mutant{rule: rule, what: what, edits: []edit{{file, from, to}}}
}

// ballotMutants are the guards of the ballot itself.
func ballotMutants() []mutant {
	return []mutant{
		one("B1", "a write does not carry the ballot", scheduleGo, "WallTime: a.wall, Ballot: a.ballot,", "WallTime: a.wall,"),
		one("B1", "a heartbeat outside a ballot clears bal and val", scheduleGo, "	switch {\n	case a.stop:\n		rec.State = SlotStopped",
			"	if a.prop.phase == phaseIdle {\n		rec.Ballot.Bal, rec.Ballot.Value = 0, nil\n	}\n	switch {\n	case a.stop:\n		rec.State = SlotStopped"),
		one("B1", "a heartbeat does not carry the decision", scheduleGo, "	switch {\n	case a.stop:\n		rec.State = SlotStopped",
			"	if a.prop.phase == phaseIdle {\n		rec.Ballot.DecidedInstance, rec.Ballot.Decided = 0, nil\n	}\n	switch {\n	case a.stop:\n		rec.State = SlotStopped"),
		one("B1", "a decision that was read is not carried", ballotGo, "		a.ballot.DecidedInstance, a.ballot.Decided = l.latest, l.grant\n", ""),
		one("B1", "an instance is entered without its predecessor's decision", ballotGo, "	a.learn(l)\n	inst := l.latest + 1", "	inst := l.latest + 1"),
		one("B2", "a second I/O while one is in flight", lanesGo, "		if !l.usable() || l.inFlight {\n			if l.inFlight {", "		if !l.usable() || l.inFlight && now < l.submitted {\n			if l.inFlight {"),
		one("B2", "the read begins before the write has landed", lanesGo, "	a.ops = append(a.ops, op)\n", "	a.ops = append(a.ops, op)\n	if op.Kind == OpWrite && a.prop.phase != phaseIdle {\n		l.inFlight, a.inFlight, a.lastWriteOK, l.landed[l.sequence%copiesPerSlot] = false, false, true, l.sequence\n		a.proposalWrote()\n	}\n"),
		one("B2", "a failed write of a phase counts", scheduleGo, "		a.seq++\n		a.abort(\"write of this node's slot: \" + c.Err.Error())\n		return\n",
			"		a.seq++\n		if a.prop.phase != phaseIdle {\n			a.proposalWrote()\n		}\n		return\n"),
		one("B2", "a ballot goes on after a failed write", scheduleGo, "		a.abort(\"write of this node's slot: \" + c.Err.Error())\n", ""),
		one("B2", "a failed read of a phase does not end the ballot", scheduleGo, "		a.abort(\"read of the slot table: \" + c.Err.Error())\n", ""),
		one("B2", "proposes with a write that did not land", arbiterGo, "a.claim == claimActive && a.lastWriteOK && a.readBack", "a.claim == claimActive && a.readBack"),
		one("B2", "proposes although this node's slot does not read back", arbiterGo, "a.lastWriteOK && a.readBack && !a.stop", "a.lastWriteOK && !a.stop"),
		one("B2", "proposes before the slot is claimed", arbiterGo, "a.claim == claimActive && a.lastWriteOK", "a.lastWriteOK"),
		one("B2", "proposes while it stops", arbiterGo, "a.readBack && !a.stop", "a.readBack"),
		one("I1", "all nodes write one block", lanesGo, "Offset: SlotOffset(a.slot, which), Data: l.buf}", "Offset: SlotOffset(0, which), Data: l.buf}"),
		one("B4", "two slots use one ballot number", ballotGo, "(greatest/slots+1)*slots + uint64(a.slot)", "(greatest/slots + 1) * slots"),
		one("B4", "the number ignores the ballots that were read", ballotGo, "			greatest = max(greatest, e.record().Ballot.MBal)\n", ""),
		one("B4", "the number ignores this node's last ballot", ballotGo, "	greatest := a.ballot.MBal\n", "	greatest := uint64(0)\n"),
		one("B5", "phase 1 clears bal and val", ballotGo, "	a.ballot.MBal = number // phase 1", "	a.ballot.Bal, a.ballot.Value = 0, nil\n	a.ballot.MBal = number // phase 1"),
		one("B5", "a decision of the instance is overlooked", ballotGo, "		case b.DecidedInstance >= a.prop.instance:", "		case false:"),
		one("B5", "a greater instance is overlooked", ballotGo, "		case b.Instance > a.prop.instance:", "		case false:"),
		{rule: "B5", what: "both the decision and the greater instance are overlooked", edits: []edit{
			{ballotGo, "		case b.DecidedInstance >= a.prop.instance:", "		case false && b.Bal == 1:"},
			{ballotGo, "		case b.Instance > a.prop.instance:", "		case false:"},
		}},
		one("B5", "a greater mbal is overlooked", ballotGo, "		case b.Instance == a.prop.instance && b.MBal > a.prop.number:", "		case false:"),
		one("B5", "an equal decided instance is overlooked", ballotGo, "b.DecidedInstance >= a.prop.instance", "b.DecidedInstance > a.prop.instance"),
		one("B5", "the read of phase 2 is not checked", ballotGo, "	if err := a.overtaken(); err != nil {", "	if err := a.overtaken(); err != nil && a.prop.phase == phaseRead1 {"),
		one("B5", "the read of phase 1 is not checked", ballotGo, "	if err := a.overtaken(); err != nil {", "	if err := a.overtaken(); err != nil && a.prop.phase == phaseRead2 {"),
		one("B5", "this node's slot need not read back", ballotGo, "			if e.status != slotKnown || e.record().Process != a.process || e.record().Sequence != a.seq {", "			if false {"),
		one("B6", "nothing is adopted", ballotGo, "	if bal > 0 {\n		return val, true\n	}", "	_ = val\n"),
		one("B6", "this node's accepted value is not adopted", ballotGo, "	if a.ballot.Bal > bal {\n		bal, val = a.ballot.Bal, a.ballot.Value\n	}\n", ""),
		one("B6", "the value of the least ballot is adopted", ballotGo, "b.Instance == a.prop.instance && b.Bal > bal {", "b.Instance == a.prop.instance && b.Bal != 0 && (bal == 0 || b.Bal < bal) {"),
		one("B6", "the value of the lowest slot wins", ballotGo, "b.Instance == a.prop.instance && b.Bal > bal {", "b.Instance == a.prop.instance && b.Bal != 0 && bal == 0 {"),
		one("B6", "a value of another instance is adopted", ballotGo, "b.Instance == a.prop.instance && b.Bal > bal {", "b.Bal > bal {"),
		one("B6", "decided with the write of phase 2, before its read", ballotGo, "	case phaseWrite2:\n		a.prop.phase = phaseRead2\n",
			"	case phaseWrite2:\n		a.ballot.DecidedInstance, a.ballot.Decided = a.prop.instance, a.ballot.Value\n		a.endProposal(proposalEnd{decided: true})\n"),
		one("B6", "a value of its own without a settled half in the phase-1 read", ballotGo, "a.view != h.view || !h.settled || !a.mayPropose()", "a.view != h.view || !a.mayPropose()"),
		one("B6", "a value of its own for a view that has passed", ballotGo, "a.view != h.view || !h.settled", "!h.settled"),
		one("B6", "a value of its own while holders of the latest grant may feed", ballotGo, "	if !a.table.holdersDone(a.ballot.Decided, &a.timing, a.ownWatchdog()) {\n		a.prop", "	if false {\n		a.prop"),
		one("B7", "a pending value is overlooked", scheduleGo, "	if l.unknown || l.pending {", "	if l.unknown {"),
		one("B7", "an unreadable slot is overlooked", scheduleGo, "	if l.unknown || l.pending {", "	if l.pending {"),
		one("B7", "a pending value of others is overlooked", tableGo, "b.Instance > l.latest && b.Bal != 0 {", "false && b.Bal != 0 {"),
		one("B7", "this node's pending value is overlooked", tableGo, "	l.pending = own.Instance > l.latest && own.Bal != 0\n", ""),
		one("B7", "the decisions of others are overlooked", tableGo, "b.DecidedInstance > l.latest {", "false {"),
		one("B7", "a newer decision does not end the anchor of the older one", scheduleGo, "		a.lease, a.anchor = l, 0\n", "		a.lease = l\n"),
		one("B7", "a newer decision waits for a read without pending values", scheduleGo, "	if newer {\n", "	if newer && !l.pending {\n"),
		one("B7", "proposes although a slot cannot be read", arbiterGo, "	if l.unknown || !a.table.holdersDone(l.grant", "	if !a.table.holdersDone(l.grant"),
		one("B7", "an excluded node proposes", arbiterGo, "	case a.excluded(in.TieSince):", "	case false:"),
		one("B9", "an unreadable slot does not stop a ballot", ballotGo, "		case e.status == slotUnknown:\n			return", "		case false:\n			return"),
	}
}

// claimMutants are the guards of taking up this node's slot.
func claimMutants() []mutant {
	return []mutant{
		one("B3", "this node's ballot is not taken up at start", claimGo, "		a.ballot = rec.Ballot\n", ""),
		one("B3", "what earlier reads taught is dropped at start", claimGo, "		a.learn(logState{latest: known.DecidedInstance, grant: known.Decided})\n", "		_ = known\n"),
		one("B3", "the slot is not read again under its lock", claimGo, "		a.claim = claimRereading\n	case", "		a.reread(a.table.end)\n	case"),
		one("B3", "no write goes to both copies", ballotGo, "	if a.double {", "	if false {"),
		one("B3", "single copies although a predecessor's write may land late", claimGo, "	a.double = rec != nil || a.seq != 0\n", ""),
		one("B3", "single copies although the very first write was torn", claimGo, "	a.double = rec != nil || a.seq != 0\n", "	a.double = rec != nil\n"),
		one("B3", "single copies after a failed write", lanesGo, "		a.double = true // it may still land", "		// it may still land"),
		one("B3", "the first write goes over the newest record", claimGo, "	first := newest + 3\n", "	first := newest + 2\n"),
		one("B3", "the first write has the sequence of a write that may still land", claimGo, "	first := newest + 3\n", "	first := newest + 1\n"),
		one("B3", "the first write has the sequence of a torn one", claimGo, "tearing; torn >= first {", "tearing; torn >= first && false {"),
		one("B3", "two agents in a row begin with one sequence", claimGo, "	if newest > maxTornFirst {", "	if false {"),
		one("B3", "the write after a failed one goes over the newest record", scheduleGo, "		a.seq++\n		a.abort(", "		a.abort("),
		one("B3", "a record of another boot is not watched", claimGo, "	a.claim, a.claimSince, a.watched = claimWatching, now, e.last\n", "	a.startClaim(rec)\n"),
		one("L1", "the token does not move on at a restart", claimGo, "			a.moveToken() // L1: the agent has restarted\n", ""),
		one("L1", "the token is of the process, not of the boot", claimGo, "	a.token = Token{Nonce: a.boot, Counter: 1}", "	a.token = Token{Nonce: a.process, Counter: 1}"),
		one("claim", "the lock's refusal is ignored", claimGo, "	if err != nil {\n		a.refused.add(device)\n	} else {\n", "	{\n"),
		one("claim", "a slot is chosen although one cannot be read", claimGo, "	if a.table.anyUnknown() {\n		return // an unreadable", "	if false {\n		return // an unreadable"),
		one("claim", "a slot of its own that cannot be read counts as never written", claimGo, "	case e.status == slotUnknown:\n		a.claim = claimReading // from the beginning, at the pace of the heartbeat\n		return\n", "	case e.status == slotUnknown:\n		a.startClaim(now, nil)\n		return\n"),
		one("claim", "a slot that another node took meanwhile is kept", claimGo, "		a.chooseSlot(now) // somebody else took it meanwhile\n", "		a.startClaim(nil)\n"),
		one("claim", "a foreign writer in this node's slot is not noticed", claimGo, "	if foreign := a.foreignWriter(); foreign != nil {", "	if foreign := a.foreignWriter(); foreign != nil && a.seq == 0 {"),
		one("L1", "two agents leap to the same token", claimGo, "unseenTokens+a.rng.Uint32N(strayTokens)", "unseenTokens"),
		one("L1", "a token that late writes took back comes back", claimGo, " || rec.Late != 0 || a.gone() {", " || a.gone() {"),
		one("claim", "a late write of a predecessor is taken for a rival", claimGo, "rec.Process != a.process && rec.Sequence >= a.seq {", "rec.Process != a.process {"),
		one("claim", "a record that changes while it is watched is no rival", claimGo, "	if e.last != a.watched {", "	if false {"),
		one("claim", "a record is watched for no time", claimGo, "	if a.table.start.Sub(a.claimSince) >= a.watchTime(rec) {", "	if true {"),
		one("claim", "the watch ends by the end of a read, not by its start", claimGo, "	if a.table.start.Sub(a.claimSince) >= a.watchTime(rec) {", "	if a.table.end.Sub(a.claimSince) >= a.watchTime(rec) {"),
		one("claim", "a slow writer's own heartbeat is not waited for", claimGo, "2*max(a.timing.Heartbeat, rec.HeartbeatInterval)", "2*a.timing.Heartbeat"),
		one("claim", "the slot counts as claimed after the first read", claimGo, "a.rounds >= claimRounds {", "a.rounds >= 1 {"),
		one("claim", "a given-up slot is used on", claimGo, "	a.claim, a.failure = claimFailed, err\n", "	a.failure = err\n"),
	}
}

// tableMutants are the guards of reading the table.
func tableMutants() []mutant {
	return []mutant{
		one("B9", "a copy that fails its checksum counts as blank", tableGo, "		default:\n			return slotUnknown, 0\n", "		default:\n			blank++\n"),
		one("B9", "a copy that fails its checksum is taken for the older one", tableGo, "		default:\n			return slotUnknown, 0\n", "		default:\n"),
		one("B9", "a torn copy makes its slot unknown", tableGo, "		case errors.Is(err, ErrTorn):\n", "		case errors.Is(err, ErrTorn):\n			return slotUnknown, 0\n"),
		one("B9", "a torn block counts as whole", sectorGo, "	case zero > 0 || mixed:\n", "	case zero > 0:\n"),
		one("B9", "a block of which a part was lost counts as torn", sectorGo, "	case zero > 0 && sequence > maxTornFirst:\n", "	case false:\n"),
		one("B9", "the copy looked at before the torn one counts", tableGo, "	case valid+blank == 0, tearing > newest+1 && tearing != seen,", "	case valid+blank == 0,"),
		one("B9", "a copy that stays torn makes its slot unknown for good", tableGo, "tearing > newest+1 && tearing != seen,", "tearing > newest+1,"),
		one("B9", "the older copy wins", tableGo, "			if valid++; copies[i].Sequence > newest {", "			if valid++; newest == 0 || copies[i].Sequence < newest {"),
		one("B9", "a short read counts", tableGo, "	if want := TableSize(len(t.entries)); len(c.Data) < want {", "	if want := TableSize(len(t.entries)); len(c.Data) < want && want < 0 {"),
		one("B9", "an exchanged LUN is read on", lanesGo, "		c.Err = a.showed(c.Device, c.Ended, c.Data)\n", "		_ = a.showed(c.Device, c.Ended, c.Data)\n"),
		one("B9", "a failed read refreshes the table", lanesGo, "	if c.Err == nil {\n		c.Err = a.table.take(c)\n	}\n", "	if err := a.table.take(c); c.Err == nil {\n		c.Err = err\n	} else {\n		a.table.merge(1<<c.Device, c.Started, c.Ended)\n	}\n"),
		one("L5", "an unreadable slot ends the age of its record", tableGo, "		e.unread++\n		return\n", "		e.unread++\n		e.since = end\n		return\n"),
		one("L5", "a record's age begins with the start of the read that showed it", tableGo, "			e.changed(now, end)", "			e.changed(now, start)"),
		one("L5", "a record ages up to the end of a read", tableGo, "	t.start, t.end, t.from = start, end, from", "	t.start, t.end, t.from = end, end, from"),
		one("L5", "records of several views count as beats of one", tableGo, " && now.view == e.last.view {", " {"),
		one("L5", "records of several tokens count as beats of one", tableGo, " && now.token == e.last.token &&", " &&"),
		one("L5", "records of several processes count as beats of one", tableGo, "	if now.process == e.last.process && now.token", "	if now.token"),
	}
}
