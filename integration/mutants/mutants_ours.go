package main

// oursMutants are the guards of a LUN that has become somebody else's, or went back.
func oursMutants() []mutant {
	const oursGo, backGo, keeperGo = "diskquorum/ours.go", "diskquorum/wentback.go", "diskquorum/keeper/keeper.go"
	list := []mutant{
		one("B10", "a LUN is written to, whatever it has shown", lanesGo, "	if op.Kind == OpWrite && !a.mayWrite(now, d) {", "	if false {"),
		one("B10", "one read of the superblock is enough for ever", oursGo, "now.Sub(l.ours) <= a.trusted(d)", "true"),
		one("B10", "a foreign superblock leaves the permission of before", oursGo, "		l.ours, l.foreign = 0, err\n", "		l.foreign = err\n"),
		one("B10", "a LUN that is ours again is not used", oursGo, "		l.ours, l.foreign = ended, nil\n", "		if l.foreign == nil {\n			l.ours = ended\n		}\n"),
		one("B10", "another LUN of this format is ours", oursGo, "		case err == nil && (sb.ID != id || sb.Slots != slots):", "		case false:"),
		one("B10", "zeros are only unreadable", oursGo, "	case blank == superblockBlocks:", "	case false:"),
		one("B10", "what was written over one copy is damage", oursGo, "		case errors.Is(err, ErrNoSuperblock), errors.Is(err, ErrVersion):", "		case false:"),
		one("B10", "a superblock that cannot be read keeps the permission", oursGo, "	default:\n		l.ours = 0\n", "	default:\n		l.ours = ended\n"),
		one("B10", "a read that failed counts as one of our superblock", oursGo, "	if err == nil {\n		err = a.showed(c.Device, c.Ended, c.Data)\n	}\n", "	if err == nil {\n		err = a.showed(c.Device, c.Ended, c.Data)\n	} else {\n		a.lanes[c.Device].ours, err = c.Ended, nil\n	}\n"),
		one("B10", "a look beside an I/O that hung counts from the end of that I/O", lanesGo, "cmp.Or(c.OwnEnded, c.Ended)", "c.Ended"),
		one("B11", "a device that went back counts", lanesGo, "		c.Err = a.noteBack(c)\n", "		_ = a.noteBack(c)\n"),
		one("B11", "that this node's slot went back is overlooked", backGo, "	back := a.ownOlder(c)\n", "	back := false\n"),
		one("B11", "that the slots of others went back is overlooked", backGo, "		back = back || dev.slots[i].past.older\n", "		back = back || dev.slots[i].past.older && i < 0\n"),
		one("B11", "one copy of this node's slot that went back is none", backGo, "	default:\n			back = true\n", "	default:\n			back = which > 0\n"),
		one("B11", "a late write is a LUN that went back", backGo, "		case mayLand(l.failed[which], right):\n", ""),
		one("B11", "a copy that a read cannot tell shows what it did before", backGo, "		case !s.past.told[which]: //", "		case false: //"),
		one("B11", "an agent that is starting overlooks that the LUN goes back", backGo, "	case back:\n", "	case back && a.claim == claimActive:\n"),
		one("B11", "an agent that is starting takes up a token that the LUN has lost", claimGo, " || a.gone() {", " {"),
		one("B11", "failed writes explain an older state for ever", backGo, "p.late[which] = now, late", "p.late[which] = now, late || p.late[which]"),
		one("B11", "a torn copy takes back what it said of failed writes", backGo, "		case !p.told[which]:\n			continue", "		case !p.told[which]:\n			p.late[which] = false\n			continue"),
		one("B11", "what an older state shows of a slot never counts again", backGo, "		a.table.forget(c.Device)\n", ""),
		one("B11", "a write that hung makes a later one of the same agent forgotten", backGo, ", s.record().Process == known.process", ""),
		one("B11", "a write that hung makes one forgotten that another device shows", backGo, ", t.shows(i, known.sequence)", ""),
		one("B11", "it ends though nobody else writes the device", backGo, "	return writing >= a.quorum\n", "	return writing >= 1\n"),
		one("B11", "a restart of the agent ends it", lateGo, "		if l.back || mayLand(l.failed[0], now)", "		if mayLand(l.failed[0], now)"),
		one("start", "a LUN that somebody else has formatted ends the start", keeperGo, "	if err != nil && !Away(err) && !Absent(err) {", "	if err != nil && !Away(err) {"),
		one("start", "a LUN of 0 bytes is the wrong one", keeperGo, "	case size == 0:\n", "	case size < 0:\n"),
		one("start", "one copy of the superblock is enough beside somebody else's data", keeperGo, "	if _, err := diskquorum.OwnSuperblock(data, sb.ID, sb.Slots); err != nil {", "	if _, err := diskquorum.OwnSuperblock(data, sb.ID, sb.Slots); false {"),
	}
	for i := range list {
		list[i].in = []string{"./diskquorum", "./diskquorum/keeper"}
	}
	return list
}
