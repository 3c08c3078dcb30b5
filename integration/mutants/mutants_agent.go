package main

// agentMutants take guards away that whole agents on virtual time must miss: each breaks a
// property of integration/agentsim within its short run.
func agentMutants() []mutant {
	const (
		loopGo    = "watchdog/wdt/loop.go"
		agentGo   = "cmd/fencing-agent/agent/guard.go"
		aliveGo   = "cmd/fencing-agent/agent/networks.go"
		coreGo    = "watchdog/core.go"
		rostersGo = "watchdog/rosters.go"
		mergeGo   = "netgossip/merge.go"
		orderGo   = "watchdog/order.go"
	)
	list := []mutant{
		one("lease", "the deadline is not looked at before a feed", loopGo, "	if !now.Before(until) || f.sent", "	if until == 0 || f.sent"),
		one("lease", "a verdict is honoured after its time", agentGo, "		until = d.Until\n", "		until = now.Add(time.Hour)\n"),
		{rule: "boot gate", what: "a node arms that never saw a quorum", edits: []edit{
			{decideGo, " && in.OnLoss != LossFence && in.HadQuorum {", " && in.OnLoss != LossFence {"},
			{coreGo, "	wanted := c.hadQuorum && !c.fx.Disarm", "	wanted := !c.fx.Disarm"},
			// Since an agent waits for its peers to have its word, that covers the gate as well.
			{disarmGo, "Reason == ReasonSplitWon\n	default:\n		return false\n", "Reason == ReasonSplitWon\n	default:\n		return true\n"},
		}},
		{rule: "quorum", what: "N is the number of live members", edits: []edit{
			{rostersGo, "Quorum: h.Quorum(r.cfg.Quorum)}", "Quorum: 1}"},
			{rostersGo, "		o := netgossip.TallyOf(counted.And(e.Members), chain[i].Size(), e.Quorum)\n",
				"		_, live := i, counted.Len()\n		o := netgossip.TallyOf(counted.And(e.Members), live, live/2+1)\n"},
		}},
		{rule: "rosters", what: "a majority of the new list alone puts it into force", edits: []edit{
			{advanceGo, "	for _, r := range s.chain {\n		if !s.majority(p, r, counted) {", "	for _, r := range s.chain[:0] {\n		if !s.majority(p, r, counted) {"},
			{advanceGo, "		if !s.majority(p, r, promised) {\n			return false\n		}\n", "		_, _ = r, promised\n"},
		}},
		one("L8", "the arbitration has no end", decideGo, "	case in.HoldUntil > in.Now:\n		return Decision{Action: Hold, Reason: before, Until: in.HoldUntil, Quorum: true}",
			"	case in.HoldUntil > 0:\n		return Decision{Action: Hold, Reason: before, Until: in.Now.Add(in.LossLease), Quorum: true}"),
		one("L8", "each tie begins the arbitration again, with the evidence of half of the group", decideGo, "	case in.HoldUntil > in.Now:\n		return Decision{Action: Hold, Reason: before, Until: in.HoldUntil, Quorum: true}",
			"	case in.HadQuorum:\n		return Decision{Action: Hold, Reason: before, Until: in.Now.Add(in.LossLease), Quorum: true}"),
		one("D_max", "evidence of any age counts", mergeGo, "	return at.Add(m.maxAge)\n", "	return at.Add(10 * m.maxAge)\n"),
		one("statement", "a hung loop goes on answering", aliveGo, "a.clock().Sub(at) > 3*maxIdle\n", "a.clock().Sub(at) > 3000*maxIdle\n"),
		one("proof", "a node is taken for dead before its horizon", proofGo, "v.missed(now, w) >= st.Guard.Horizon+ProofDelay)", "now.Sub(w.unseen) >= ProofDelay)"),
		one("proof", "nobody asks for claims", claimsGo, "	v.out.Ask = v.merger.Ways(now, wanted, q.turn)\n", "	v.out.Ask = v.merger.Ways(now, roster.Set{}, q.turn)\n"),
		one("proof", "a proof is never given", proofGo, "in.Majority && 2*claims > v.lists.base().Size():", "in.Majority && false:"),
		one("order", "an order costs the quorum", orderGo, "	if !v.majority(rest) {", "	if false {"),
		{rule: "order", what: "two nodes end by orders at once", edits: []edit{
			{orderGo, "	rival, _ := v.rival()\n	return !rival", "	return true"},
			{orderGo, "v.disobeys(now) != 0 || !v.unheard().IsEmpty() {", "v.disobeys(now) != 0 {"},
			{orderGo, "m != p && (w.death.Proof == 0 || w.death.Boot != w.boot) {", "w == nil {"},
		}},
		one("calm", "the watchdog is fed too late", agentGo, "		until = d.Until\n", "		until = min(d.Until, now.Add(time.Second/10))\n"),
		one("calm", "evidence is not believed for D_max", mergeGo, "	return at.Add(m.maxAge)\n", "	return at.Add(m.maxAge / 4)\n"),
	}
	for i := range list {
		list[i].rule, list[i].in = "agents: "+list[i].rule, []string{"./integration/agentsim"}
	}
	return list
}
