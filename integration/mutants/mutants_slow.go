package main

// slowMutants decide an equal split as safely as before, and too late on a LUN whose I/O is slow.
func slowMutants() []mutant {
	const (
		paceGo = "diskquorum/pace.go"
		echoGo = "diskquorum/echoes.go"
		sim    = "./integration/sim"
		arb    = "./diskquorum"
	)
	of := func(what, file, from, to string, in ...string) mutant {
		return mutant{rule: "slow LUN", what: what, edits: []edit{{file, from, to}}, in: in}
	}
	return []mutant{
		of("another ballot is never left alone", paceGo, "	return a.others.since.Add(a.patience())\n", "	return 0\n", arb),
		of("a ballot is waited for whose owner stands still", paceGo, " || b.MBal <= seen.mbal || !a.moves(e) {", " || b.MBal <= seen.mbal {", arb),
		of("a step of another ballot is not seen", paceGo, "seen.mbal == was.mbal && seen.bal == was.bal {", "seen.mbal == was.mbal {", arb),
		of("patience does not follow the I/O", paceGo, "	*mean += (took - *mean) / recent\n", "", arb),
		of("heartbeats go before reads", scheduleGo, "	case a.sinceRead > 0 && now >= a.readDue(in) && (!a.dirty || a.passed):\n", "	case false:\n", arb, sim),
		of("phase 1 is not read again until the half has settled", ballotGo, "	if value == nil && a.waits() {", "	if value == nil && false {", arb),
		of("phase 1 is read again for ever", ballotGo, " && a.table.end < a.prop.begun.Add(a.ballotTime())", "", arb, sim),
		of("the echo block waits for a moment without I/O", echoGo, "		a.takeAlong(d)\n", "", arb, sim),
		of("a sentence counts as landed beside a slot that was not written", lanesGo, "Err: cmp.Or(c.BesideErr, c.Err)}", "Err: c.BesideErr}", arb),
		of("a grant does not outlast two slow rounds", "cmd/fencing-agent/config/derive.go", "	return max(c.EvidenceMaxAge(), 3*c.LUN.HeartbeatInterval+c.LUN.IOTimeout, slow)\n",
			"	return max(c.EvidenceMaxAge(), 3*c.LUN.HeartbeatInterval+c.LUN.IOTimeout, 0*slow)\n", sim, "./cmd/fencing-agent/config"),
		of("a LUN that is too slow is in order", paceGo, "	if a.claim != claimActive || a.pace.slowest() <= limit {", "	if a.slot >= 0 || a.pace.slowest() <= limit {", arb),
		of("a LUN that was too slow once stays so", paceGo, "		p.greatest, p.began = [2]time.Duration{0, p.greatest[0]}, now\n", "		p.began = now\n", arb),
	}
}
