package main

const lateGo = "diskquorum/late.go"

// lateMutants are the guards against failed writes that land late.
func lateMutants() []mutant {
	return []mutant{
		one("B3", "a ballot counts on a device on which both copies can be taken back", lateGo, "	return copies >= copiesPerSlot", "	return false && copies >= copiesPerSlot"),
		one("B3", "a ballot begins while failed writes of both copies may land", arbiterGo, "	if !a.enoughSure(now) {", "	if false {"),
		one("B3", "a phase counts on a device in doubt", lanesGo, "a.prop.phase != phaseIdle && a.doubtful(c.Device, c.Ended):", "false:"),
		one("B3", "the doubt ends early", lateGo, "now.Sub(failed) <= lateWrite", "now.Sub(failed) <= lateWrite/2"),
		one("B3", "the doubt never ends", lateGo, "!failed.IsZero() && now.Sub(failed) <= lateWrite", "!failed.IsZero()"),
		one("B3", "a slot does not say that writes failed", scheduleGo, ", Late: a.lateDevices(now),", ","),
		one("B3", "what a predecessor said of its failed writes is overlooked", claimGo, "		a.legacy.late = rec.Late\n", ""),
		one("B3", "a predecessor's unknown failed write is overlooked", claimGo, "		a.legacy = legacy{since: now}\n", ""),
		one("B3", "failed writes are told by the order of this node's configuration", lateGo, "return 1 << a.lanes[d].place", "return 1 << d"),
		one("B3", "a device that hangs counts as sure", lateGo, "l.usable() && !slow && !l.failing", "l.usable() && !l.failing"),
		one("B9", "the sequence does not leap after failed writes", lanesGo, "		a.leap = a.leap || l.failing\n", ""),
		one("B9", "a copy that may have been taken back stands in for a torn one", tableGo, ", tearing > newest+retries:", ":"),
		one("B9", "a copy that was zeroed counts as never written", tableGo, "	case valid == 1 && blank == 1 && !BesideBlank(&copies[current]):", "	case false:"),
		one("B9", "beside any record of the first attempts the other copy may be blank", tableGo, "s.Late != 0 && s.Sequence%", "s.Sequence%"),
		one("B9", "beside any record of failed writes the other copy may be blank", tableGo, " && s.Sequence < retries\n}", "\n}"),
		one("B9", "a first record that landed late makes its slot unknown", tableGo, "return s.Sequence == 1 || s.Late != 0 && s.Sequence%copiesPerSlot == 1 && s.Sequence < retries", "return s.Sequence == 1"),
		one("B9", "a slot that was read once may be blank again", tableGo, "	if status == slotBlank && e.last != (identity{}) {", "	if false {"),
		one("B7", "two decisions of one instance pass for the first", tableGo, "				l.unknown, l.differs = true, i\n", ""),
		one("B7", "two decisions of one instance only stop proposals", scheduleGo, "	if l.differs >= 0 {\n", "	if false {\n"),
		one("B7", "one of two decisions is learned", scheduleGo, "	l := a.table.log(&a.ballot)\n	if l.differs", "	l := a.table.log(&a.ballot)\n	a.learn(l)\n	if l.differs"),
		one("B7", "a ballot goes on although the instance before has two decisions", ballotGo, "	if l := a.table.log(&a.ballot); l.differs >= 0 {", "	if l := a.table.log(&a.ballot); false {"),
		one("B3", "the ballot of a freed slot is not continued", claimGo, "		a.ballot = rec.Ballot\n", "		if rec.State != SlotFree {\n			a.ballot = rec.Ballot\n		}\n"),
		one("B3", "the sequence of a freed slot is not continued", claimGo, "		a.seq = a.firstSequence(rec.Sequence) - 1\n", "		if rec.State != SlotFree {\n			a.seq = a.firstSequence(rec.Sequence) - 1\n		}\n"),
		one("B3", "a freed slot counts as never written", claimGo, "	if rec != nil {\n		a.legacy.late", "	if rec != nil && rec.State != SlotFree {\n		a.legacy.late"),
	}
}
