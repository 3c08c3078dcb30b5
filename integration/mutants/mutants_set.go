package main

// setMutants are the guards of a LUN of three devices.
func setMutants() []mutant {
	return []mutant{
		one("B8", "a write of an earlier transfer counts for this one", lanesGo, "	default: // one of two copies\n", "	default:\n		t.count(c)\n"),
		one("B8", "a read of an earlier transfer counts for this one", lanesGo, "	case !a.inFlight || t.kind != OpRead || l.transfer != t.id:", "	case !a.inFlight || t.kind != OpRead:"),
		one("B8", "a write is done with one device", lanesGo, "	case t.done.len() >= a.majority():", "	case t.done.len() >= a.majority() || t.kind == OpWrite && t.done != 0:"),
		one("B8", "a read is done with one device", lanesGo, "	case t.done.len() >= a.majority():", "	case t.done.len() >= a.majority() || t.kind == OpRead && t.done != 0:"),
		one("B8", "one device tells a slot", tableGo, "	case known < len(t.devices)/2+1:", "	case known < 1:"),
		one("B8", "the least sequence counts", tableGo, "newest == nil || rec.Sequence > newest.Sequence:", "newest == nil || rec.Sequence < newest.Sequence:"),
		one("B8", "a record that one device missed comes and goes", tableGo, "	if len(t.devices) > 1 && status", "	if len(t.devices) > 3 && status"),
		one("B8", "a slot that two agents write counts as known", tableGo, "			return slotUnknown, nil // two write it", "			continue"),
		one("B8", "the anchor is the latest start", lanesGo, "	if t.done == 0 || c.Started < t.start {", "	if t.done == 0 || c.Started > t.start {"),
		one("B8", "a read ends with its first device", lanesGo, "	t.end = max(t.end, c.Ended)", "	t.end = c.Started"),
		one("B8", "one device that fails fails the transfer", lanesGo, "	case possible < a.majority():", "	case t.failed != 0:"),
		one("B8", "a read does not wait for the device that can tell", lanesGo, "!a.table.resolved(t.done)", "false"),
		one("B8", "a device that lacks the latest record is not given it", lanesGo, "	if s := a.recorded; s != 0 && l.tried", "	if s := a.recorded; s != 0 && a.inFlight && a.cur.kind == OpWrite && l.tried"),
		one("L6", "a write begins with the devices that count", lanesGo, "		c.Started = min(t.start, a.submitted)", "		c.Started = t.start"),
		one("B8", "a device that acknowledged a write need not show it", claimGo, " || a.misread() {", " {"),
		one("B3", "the two copies may be on different devices", scheduleGo, "		a.alsoWrite(before)\n", "		_ = before\n"),
		one("B3", "a device with the second copy alone counts", lanesGo, "(t.also == 0 || l.landed[t.also%copiesPerSlot] == t.also)", "true"),
		one("B3", "what stands on an unread device may be newer than this agent's records", claimGo, "			a.seq += claimedDistance\n", ""),
		one("L1", "the token does not pass what stands on an unread device", claimGo, "a.table.from.len() < len(a.lanes)", "false"),
		one("claim", "the lock of one device is enough", claimGo, "	case a.locks.len() >= a.majority():", "	case a.locks.len() >= 1:"),
		one("claim", "a foreign writer on a device other than the first is not noticed", claimGo, "		if !a.table.from.has(d) || s.status != slotKnown {", "		if !a.table.from.has(d) || s.status != slotKnown || d > 0 {"),
		one("claim", "a given-up slot is written on a device that lags", lanesGo, "	if a.claim == claimFailed {\n		return // another agent writes", "	if false {\n		return // another agent writes"),
	}
}

// modeMutants are the guards of lun.mode: and, and of who is cut off in any mode.
func modeMutants() []mutant {
	const senseGo, decideGo = "watchdog/lun.go", "watchdog/decide.go"
	var all []mutant
	for _, m := range []mutant{
		one("isolated", "an isolated node goes on", decideGo, "	case in.LUNIsolated:", "	case false:"),
		one("mode and", "the loss of the LUN stops nobody", decideGo, "	case in.Outcome == netgossip.Majority && in.LUNLost:", "	case false:"),
		one("mode and", "an outage for all stops everybody", senseGo, "c.healthyPeers() < c.rosters.quorum", "false"),
		one("mode and", "an outage stops who notices it first", senseGo, "	if s.lost = now >= end; !s.lost {", "	if s.lost = true; now < end {"),
		one("mode and", "fewer than a quorum with LUN stop the others", senseGo, "c.healthyPeers() < c.rosters.quorum", "c.healthyPeers() < 1"),
	} {
		m.in = []string{"./watchdog", "./integration/sim"}
		all = append(all, m)
	}
	return all
}
