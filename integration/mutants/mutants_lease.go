package main

// leaseMutants are the guards of putting a grant forward.
func leaseMutants() []mutant {
	return []mutant{
		one("L1", "the token does not move on with the counted view", arbiterGo, "		a.moveToken() // L1: the counted view changed\n", ""),
		one("L1", "the token stays when a grant's deadline passes", arbiterGo, "	if a.granted && now >= a.grantedTo || a.silent && !a.carried.IsZero() && now >= a.carried.Add(a.timing.Grant) {", "	if a.silent && !a.carried.IsZero() && now >= a.carried.Add(a.timing.Grant) {"),
		one("L1", "the token stays when no own write has landed for G", arbiterGo, "	if a.granted && now >= a.grantedTo || a.silent && !a.carried.IsZero() && now >= a.carried.Add(a.timing.Grant) {", "	if a.granted && now >= a.grantedTo {"),
		one("L1", "a write that took longer than G makes up for the silence", scheduleGo, "	a.lapse(now) // before a write that took too long makes up for the silence\n", ""),
		one("L1", "the token moves on with every step of a silence", arbiterGo, "!a.carried.IsZero() && now >= a.carried.Add(a.timing.Grant) {", "!a.writeStart.IsZero() {"),
		one("L1", "the token moves on once in a silence, however long", arbiterGo, "now >= a.carried.Add(a.timing.Grant) {", "now >= a.carried.Add(a.timing.Grant) && a.carried < a.writeStart.Add(a.timing.Grant) {"),
		{rule: "L2", what: "the token moves on when a peer is merely seen", edits: []edit{
			{arbiterGo, "	a.own, a.wall = in.Own, in.WallTime\n", "	seen := a.own.Seen\n	a.own, a.wall = in.Own, in.WallTime\n"},
			{arbiterGo, "	if in.View != a.view {\n", "	if in.View != a.view || seen != a.own.Seen {\n"},
		}},
		one("L1", "the token counter wraps", arbiterGo, "	if a.token.Counter == ^uint32(0) {", "	if false {"),
		one("L1", "a grant survives the end of its tie", arbiterGo, "		if a.granted {\n			a.moveToken()\n		}\n", ""),
		one("L1", "a grant survives the withdrawal of its evidence", arbiterGo, "		a.moveToken() // evidence was withdrawn before the deadline: renounce at once\n", ""),
		one("L1", "a moved token is not published soon", arbiterGo, "	a.carried, a.dirty = 0, true\n", "	a.carried = 0\n"),
		one("L3", "a member's other roster is overlooked", leaseGo, "	case !a.sameRoster(st):", "	case false:"),
		one("L3", "a member's other roster epoch is overlooked", leaseGo, "st.RosterEpoch == a.roster.Epoch && st.RosterDigest", "st.RosterDigest"),
		one("L3", "a member's other list of names is overlooked", leaseGo, "st.RosterEpoch == a.roster.Epoch && st.RosterDigest == a.roster.Digest", "st.RosterEpoch == a.roster.Epoch"),
		one("L3", "a ballot begins without a tie", arbiterGo, "	if !in.Tie || a.out.Split != tie.Pending ||", "	if"),
		one("L3", "a set that is not half the roster is granted", arbiterGo, "!h.settled && !a.early(now, &h) || h.view.Len()*2 != a.expected", "!h.settled && !a.early(now, &h)"),
		one("L5", "a ballot begins while holders may feed", arbiterGo, "	if l.unknown || !a.table.holdersDone(l.grant, &a.timing, a.ownWatchdog()) {", "	if l.unknown {"),
		{rule: "L5", what: "a grant is put forward while holders of the latest may feed", edits: []edit{
			{arbiterGo, "	if l.unknown || !a.table.holdersDone(l.grant, &a.timing, a.ownWatchdog()) {", "	if l.unknown {"},
			{ballotGo, "	if !a.table.holdersDone(a.ballot.Decided, &a.timing, a.ownWatchdog()) {\n		a.prop", "	if false {\n		a.prop"},
		}},
		{rule: "L5", what: "a grant is put forward by a half that is not settled", edits: []edit{
			{arbiterGo, "	if !h.settled && !a.early(now, &h) || h.view.Len()*2", "	if h.view.Len()*2"},
			{ballotGo, "a.view != h.view || !h.settled || !a.mayPropose()", "a.view != h.view || !a.mayPropose()"},
		}},
		one("L5", "a member's slot need not be active", leaseGo, "	case rec.State != SlotActive:", "	case false:"),
		one("L5", "a member's slot may show a token that has moved on", leaseGo, "present.IsZero() || st.Token != present:", "present.IsZero():"),
		one("L5", "a member that says no token counts", leaseGo, "present.IsZero() || st.Token != present:", "st.Token != present:"),
		one("L5", "a member nothing was heard of counts", leaseGo, "		if gossip == nil {\n			return rec.NodeName + \": nothing heard of it\"\n		}\n		present = gossip.Token", "		present = st.Token\n		if gossip != nil {\n			present = gossip.Token\n		}"),
		one("L5", "a member's slot may show another view", leaseGo, "	case st.View != view:", "	case false:"),
		one("L5", "one heartbeat is enough", leaseGo, "} else if a.table.entries[slot].beats < 2 {", "} else if false {"),
		one("L5", "a member's slot need not move", leaseGo, "!ok || a.table.start.Sub(at) > a.fresh() {\n		return rec.NodeName + \": its slot does not move\"", "false && ok && at == 0 {\n		return rec.NodeName + \": its slot does not move\""),
		one("L5", "a member without slot is left out of the grant", leaseGo, "	if len(h.slots) != view.Len() {", "	if false {"),
		one("L5", "a given-back slot counts", leaseGo, "		if e.status != slotKnown || e.record().State == SlotFree {\n			continue\n		}\n		idx, ok", "		if e.status != slotKnown {\n			continue\n		}\n		idx, ok"),
		one("L5", "a holder that rebooted is not gone", leaseGo, "shown.Nonce != h.Token.Nonce || shown.Counter > h.Token.Counter", "shown.Nonce == h.Token.Nonce && shown.Counter > h.Token.Counter"),
		one("L5", "a holder that renounced is not done", leaseGo, "shown.Nonce != h.Token.Nonce || shown.Counter > h.Token.Counter", "shown.Nonce != h.Token.Nonce"),
		one("L5", "an old record that comes back is a renouncement", leaseGo, "shown.Counter > h.Token.Counter", "shown.Counter != h.Token.Counter"),
		one("L5", "a holder whose slot cannot be read is done", leaseGo, "	if e.status != slotKnown {\n		return false\n	}\n	return h.left", "	if e.status != slotKnown {\n		return true\n	}\n	return h.left"),
		one("L5", "a holder outside the table is done", leaseGo, "	if int(h.Slot) >= len(t.entries) {\n		return false\n	}", "	if int(h.Slot) >= len(t.entries) {\n		return true\n	}"),
		one("L5", "a holder never expires", leaseGo, "|| t.start.Sub(e.since) >= expiry", "|| false && expiry > 0"),
		one("L5", "a holder expires by the end of a read", leaseGo, "|| t.start.Sub(e.since) >= expiry", "|| t.end.Sub(e.since) >= expiry"),
		one("L5", "a holder expires at once", leaseGo, "|| t.start.Sub(e.since) >= expiry", "|| t.start.Sub(e.since) >= min(expiry, 2*time.Second)"),
		one("L5", "a holder's own watchdog timeout is not waited for", leaseGo, "max(w, rec.Statement.Guard.Timeout)", "w"),
		one("L5", "a holder's own G is not waited for", leaseGo, "max(lifetime, rec.GrantLifetime)", "lifetime"),
		one("L5", "a holder's shorter G cuts the expiry", leaseGo, "max(lifetime, rec.GrantLifetime)", "rec.GrantLifetime"),
		one("L5", "each holder is waited for by its own times alone", leaseGo, "	for _, h := range g.Holders {\n		if !t.holderDone(h, expiry) {", "	for _, h := range g.Holders {\n		expiry = t.expiry(&Grant{Holders: []Holder{h}}, tm, ownWatchdog)\n		if !t.holderDone(h, expiry) {"),
		one("L5", "a holder that renounced is waited for", leaseGo, "rec := t.entries[h.Slot].record(); !h.left(rec.Statement.Token)", "rec := t.entries[h.Slot].record(); true"),
		one("L5", "the slot does not state G", "diskquorum/schedule.go", "GrantLifetime: a.timing.Grant,", ""),
		one("L5", "this node's watchdog timeout is not waited for", leaseGo, "lifetime, w := tm.Grant, ownWatchdog", "lifetime, w := tm.Grant, 0*ownWatchdog"),
		one("L5", "one holder that is done is enough", leaseGo, "		if !t.holderDone(h, expiry) {\n			return false\n		}\n	}\n	return true\n", "		if t.holderDone(h, expiry) {\n			return true\n		}\n	}\n	return false\n"),
		one("L12", "a half without API does not wait", arbiterGo, "	if a.prefer && !a.halfReachesAPI(in) {", "	if false {"),
		one("L12", "a half waits although it is not asked to", arbiterGo, "	if a.prefer && !a.halfReachesAPI(in) {", "	if !a.halfReachesAPI(in) {"),
		one("L12", "the API of the other members does not count", arbiterGo, "			if st, _ := a.evidence.Statement(p); st != nil && st.APIReachable {\n				return true\n			}\n", ""),
		one("L12", "the delay begins again with each step without API", arbiterGo, "	turn := in.TieSince.Add(a.delay(in))", "	turn := in.TieSince.Add(a.delay(in))\n	if a.prefer && !a.halfReachesAPI(in) {\n		turn = now.Add(a.delay(in))\n	}"),
		one("L12", "all members of a half propose at once", arbiterGo, "	return d + time.Duration(a.rank())*a.timing.Stagger\n", "	return d\n"),
		one("L12", "a member without LUN is waited for", arbiterGo, "st != nil && st.LUNHealthy {", "st != nil {"),
		one("L12", "members of the other half are waited for", arbiterGo, "ok && a.view.Has(idx) {\n			if st", "ok {\n			if st"),
		one("L12", "a failed ballot is repeated at once", arbiterGo, "max(turn, a.retryAt, a.yieldsUntil())", "max(turn, a.yieldsUntil())"),
		one("calm", "decides before the other half has noticed the split", arbiterGo, "	if who := a.rivalUnaware(a.view); who != \"\" {", "	if who := \"\"; who != \"\" {"),
		one("calm", "waits for a node of the other half that is dead", leaseGo, "		if e.after != 0 && a.table.start.Sub(e.after) <= max(a.timing.fresh(), 2*a.pace.round()) && e.record()", "		if e.after != 0 && e.record()"),
		one("calm", "a change counts from the read that shows it, however old the one before is", leaseGo, "a.table.start.Sub(e.after) <= max(", "a.table.start.Sub(e.since) <= max("),
		one("calm", "a slot that cannot be read gives its owner another head start", arbiterGo, " || a.table.showsHolder(a.lease.grant, &a.timing, a.ownWatchdog()) {", " || a.table.reads > 0 {"),
		one("calm", "any slot that cannot be read ends the holders' head start", arbiterGo, " || a.table.showsHolder(a.lease.grant, &a.timing, a.ownWatchdog()) {", " || !a.table.anyUnknown() {"),
		one("calm", "the excluded half takes the grant as soon as it is renounced", arbiterGo, "a.lostTo != 0 && a.lostTo == l.latest && now < at && a.holdersMove(l.grant)", "a.lostTo != 0 && false && now < at"),
		one("calm", "a holder that renounced waits for itself", arbiterGo, "a.lease.grant.token(a.slot); !named {", "a.lease.grant.token(a.slot); !named || a.slot >= 0 {"),
		one("calm", "the excluded half waits for dead holders", arbiterGo, " && now < at && a.holdersMove(l.grant) {", " && now < at {"),
		one("calm", "what was read before this tie excludes", arbiterGo, "	if g == nil || a.table.start < tieSince {", "	if g == nil {"),
	}
}

// feedMutants are the guards of feeding under a grant.
func feedMutants() []mutant {
	const member = "		at := max(a.memberEvidence(h, view), a.rejoined(h, view))\n		if at.IsZero() {\n			return 0\n		}\n		until = min(until, at.Add(a.timing.Grant))"
	return []mutant{
		one("L6", "the grant counts by slot, not by token", leaseGo, "	if named, ok := g.token(a.slot); !ok || named != a.token {\n		return 0\n	}\n	if len", "	if _, ok := g.token(a.slot); !ok {\n		return 0\n	}\n	if len"),
		one("L6", "the view may be greater than the grant", leaseGo, "	if len(g.Holders) != view.Len() {\n		return 0\n	}\n", ""),
		one("L6", "the other members are not asked for", leaseGo, member, "		_ = h"),
		one("L6", "a member's evidence does not age", leaseGo, "		until = min(until, at.Add(a.timing.Grant))\n", ""),
		one("L6", "a member's token is not compared", leaseGo, "st.Token != h.Token || st.View != view", "st.View != view"),
		one("L6", "a member's view is not compared", leaseGo, "st.Token != h.Token || st.View != view", "st.Token != h.Token"),
		one("L6", "a holder outside the table is looked up", leaseGo, "	if int(h.Slot) >= len(a.table.entries) {\n		return nil, 0\n	}\n", ""),
		one("calm", "a read that cannot tell whose slot it is ends a grant", leaseGo, "	if int(h.Slot) >= len(a.table.entries) {\n		return nil, 0\n	}\n", "	if int(h.Slot) >= len(a.table.entries) || a.table.entries[h.Slot].status != slotKnown {\n		return nil, 0\n	}\n"),
		one("L6", "feeds from the read, not from the start of this node's write", scheduleGo, "		a.anchor = a.writeStart", "		a.anchor = a.table.end"),
		one("L6", "feeds from the end of this node's write", scheduleGo, "a.lastWriteOK, a.writeStart, a.lastGood = true, c.Started, c.Ended", "a.lastWriteOK, a.writeStart, a.lastGood = true, c.Ended, c.Ended"),
		one("L6", "reads renew the grant while writes fail", scheduleGo, "	if a.lastWriteOK && a.readBack && !a.stranded() { // an agent that claims its slot reads what went back, too (B11)\n		a.anchor = a.writeStart", "	if true {\n		a.anchor = a.table.start"),
		one("L6", "a write that does not read back renews the grant", scheduleGo, "a.lastWriteOK && a.readBack && !a.stranded() {", "a.lastWriteOK && !a.stranded() {"),
		one("L6", "the deadline is not looked at", arbiterGo, "	case until > now:\n", "	case until > 0:\n"),
		one("L6", "the deadline is later than G", leaseGo, "	until := anchor.Add(a.timing.Grant)", "	until := anchor.Add(2 * a.timing.Grant)"),
		one("L6", "the read that ends a ballot anchors the grant before the read", scheduleGo, "	a.lease = l\n	if a.lastWriteOK", "	a.lease = l\n	if a.anchor == 0 {\n		a.anchor = a.table.end\n	}\n	if a.lastWriteOK"),
	}
}

// relayMutants are the guards of feeding by the landed writes of another holder.
func relayMutants() []mutant {
	const relayGo = "diskquorum/relay.go"
	in := func(m mutant, p string) mutant {
		m.in = []string{p}
		return m
	}
	return []mutant{
		one("L7", "nobody's word counts", relayGo, "			a.relayed = max(a.relayed, a.relayOf(h))\n", "			_ = a.relayOf(h)\n"),
		one("L7", "a word about another log counts", relayGo, "	if r.Log != a.log || r.Instance", "	if r.Instance"),
		one("L7", "a word about another decision counts", relayGo, "	if r.Log != a.log || r.Instance != a.lease.latest {", "	if r.Log != a.log {"),
		one("L7", "a word of a holder without evidence counts", relayGo, "	if a.memberEvidence(h, a.view).IsZero() {\n		return 0\n	}\n", ""),
		one("L7", "a word counts although a later value is accepted", relayGo, "|| a.lease.pending ||", "||"),
		one("L7", "a word counts outside a tie", relayGo, "!in.Tie || !ok", "!ok"),
		one("L7", "a word counts for a token that has moved on", relayGo, "|| named != a.token ||", "|| named.Nonce != a.token.Nonce ||"),
		one("L7", "what was told is passed on", relayGo, "Anchor: a.anchor}", "Anchor: max(a.anchor, a.relayed)}"),
		one("L7", "a word is worth G from its arrival", relayGo, "	return r.Anchor\n", "	_, at := a.evidence.Statement(idx)\n	return at\n"),
		one("L7", "a word keeps no token alive", arbiterGo, "now >= max(a.writeStart, a.relayed).Add(a.timing.Grant)", "now >= a.writeStart.Add(a.timing.Grant)"),
		one("L7", "what was told to one token counts for the next", arbiterGo, "	a.granted, a.grantedTo, a.relayed = false, 0, 0", "	a.granted, a.grantedTo = false, 0"),
		one("L7", "who is not granted has something to tell", arbiterGo, "	a.takeRelays(in)\n", "	a.takeRelays(in)\n	a.out.Relay = netgossip.Relay{Log: a.log, Instance: a.lease.latest, Anchor: a.table.end}\n"),
		one("L7", "a set of devices has as many logs", relayGo, "	case sb.Devices > 1:", "	case false:"),
		in(one("L7", "who lives by another's writes proves deaths by old records", "watchdog/deaths.go", " && c.guard.Leases && !c.split.Relayed", " && c.guard.Leases"), "./integration/sim"),
		in(one("L7", "the age of a word is not counted", "netgossip/swim/evidence.go", "asked.At.Add(-m.RelayAge)", "asked.At"), "./netgossip/swim"),
		in(one("L7", "a word counts from the end of the exchange", "netgossip/swim/evidence.go", "asked.At.Add(-m.RelayAge)", "now.Add(-m.RelayAge)"), "./netgossip/swim"),
		in(one("L7", "the age of a word is rounded down", "netgossip/swim/wire/codec.go", "AgeMs: millisUp(m.RelayAge)", "AgeMs: uint32(m.RelayAge / time.Millisecond)"), "./netgossip/swim/wire"),
		in(one("L7", "a word outlives the next answer", "netgossip/merge.go", "		p.heard, p.relay = a.SentAt, a.Relay\n", "		if p.heard = a.SentAt; a.Relay.Log != 0 {\n			p.relay = a.Relay\n		}\n"), "./netgossip"),
	}
}

// clusterMutants need whole groups of cores to be noticed: guards that overlap are taken
// away together, and those that lie outside diskquorum.
func clusterMutants() []mutant {
	const (
		coreGo   = "watchdog/core.go"
		decideGo = "watchdog/decide.go"
		mergeGo  = "netgossip/merge.go"
	)
	in := func(m mutant, packages ...string) mutant {
		m.in = packages
		return m
	}
	const sim, core, net = "./integration/sim", "./watchdog", "./netgossip"
	return []mutant{
		in(mutant{rule: "L6", what: "token, view and the members' evidence together", edits: []edit{
			{leaseGo, "	if named, ok := g.token(a.slot); !ok || named != a.token {\n		return 0\n	}\n	if len(g.Holders) != view.Len() {\n		return 0\n	}\n",
				"	if _, ok := g.token(a.slot); !ok {\n		return 0\n	}\n"},
			{leaseGo, "		at := max(a.memberEvidence(h, view), a.rejoined(h, view))\n		if at.IsZero() {\n			return 0\n		}\n		until = min(until, at.Add(a.timing.Grant))", "		_ = h"},
		}}, sim),
		in(mutant{rule: "L6", what: "reads renew the grant while writes fail, and silence does not renounce", edits: []edit{
			{scheduleGo, "	if a.lastWriteOK && a.readBack && !a.stranded() { // an agent that claims its slot reads what went back, too (B11)\n		a.anchor = a.writeStart", "	if true {\n		a.anchor = a.table.start"},
			{arbiterGo, "	if a.granted && now >= a.grantedTo || a.silent && !a.carried.IsZero() && now >= a.carried.Add(a.timing.Grant) {", "	if a.granted && now >= a.grantedTo {"},
		}}, sim),
		in(one("L8", "an excluded node goes on with its arbitration", arbiterGo, "	case a.excluded(in.TieSince):", "	case false:"), sim),
		in(one("L8", "a lost grant holds on like an open tie", decideGo, "			return Decision{Action: Starve, Reason: ReasonSplitLost} // at once (L8)", "			return hold(in, ReasonSplitLost, ReasonSplitLost)"), core),
		in(one("L8", "the clock starts when the loop notices, not when the evidence ran out", coreGo, "		lost := min(c.lastUntil, now)", "		lost := now"), core),
		in(one("L8", "each new view starts the clock of the arbitration", coreGo, "	if c.tieSince == 0 && c.outcome == netgossip.EqualSplit {\n", "	if c.outcome == netgossip.EqualSplit && c.view.Counted != c.asked.View {\n		c.holdUntil = now.Add(c.cfg.Arbitrate)\n	}\n	if c.tieSince == 0 && c.outcome == netgossip.EqualSplit {\n"), sim),
		in(one("L8", "the arbitration has no end", decideGo, "	case in.HoldUntil > in.Now:", "	case in.HoldUntil > 0:"), core),
		in(one("L2", "one-way counting", mergeGo, "		p.contact = a.Statement.Seen.Has(m.roster.Self)\n", "		p.contact = true\n"), net),
		in(mutant{rule: "L2", what: "a peer with another roster counts", edits: []edit{
			{mergeGo, "		return m.sameRoster(s)\n", "		return true\n"},
			{mergeGo, "	if m.sameRoster(a.Statement) {\n", "	if true {\n"},
		}}, net),
		in(one("D_max", "evidence of any age counts", mergeGo, "	return at.Add(m.maxAge)\n", "	return at.Add(10 * m.maxAge)\n"), net),
		in(one("D_max", "a majority is believed after its evidence ran out", decideGo, "	case in.Outcome == netgossip.Majority && in.QuorumUntil > in.Now:", "	case in.Outcome == netgossip.Majority:"), core),
	}
}
