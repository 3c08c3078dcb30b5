package main

const (
	sealGo   = "netgossip/swim/seal.go"
	screenGo = "netgossip/swim/screen.go"
	plainGo  = "netgossip/swim/plain.go"
	clockGo  = "netgossip/swim/clock.go"
	vouchGo  = "netgossip/vouch.go"
)

// swimMutants are the guards of what comes over the wire.
func swimMutants() []mutant {
	list := []mutant{
		one("frame", "a packet of version 0 gets as far as memberlist", sealGo, "	return version(sealed[0])\n", "	return \"\"\n"),
		one("frame", "a stream of version 0 gets as far as memberlist", sealGo, "	return version(frame[5]), false\n", "	return \"\", false\n"),
		one("frame", "a stream that seals nothing gets as far as memberlist", sealGo, "n <= leastSealed || n > s.screen.maxStream", "n > s.screen.maxStream"),
		one("frame", "a stream may be as large as it says", sealGo, "n <= leastSealed || n > s.screen.maxStream", "n <= leastSealed"),
		one("frame", "a stream without a label is not looked at", screenGo, "		return head, true, true\n", "		return nil, false, true\n"),
		one("frame", "a stream is looked at once, however little came", screenGo, "	if !more {\n", "	if !more || r == \"\" {\n"),
		one("frame", "the sockets do not look at packets", "netgossip/swim/transport_sockets.go", " || !t.ledger.opens(in.buf[:n], from.Addr())", ""),
		one("frame", "a foreign transport is not looked at", "netgossip/swim/transport_meter.go", " || !m.ledger.opens(p.Buf, from)", ""),
		one("frame", "streams are not looked at", "netgossip/swim/transport_ledger.go", "	if s.ledger.screen != nil {\n", "	if false {\n"),
		one("frame", "without a key nothing is looked at", screenGo, "		return &plainScreen{label: own, maxStream: maxStream, maxNodes: uint64(members)}\n", "		return nil\n"),
		one("frame", "a length may go beyond the packet", plainGo, "	return n <= uint64(w.budget)\n", "	return true\n"),
		one("frame", "a table may have as many nodes as it says", plainGo, "w.limit == 0 || n <= w.limit", "true"),
		one("frame", "every node of a table may be as large as a table", plainGo, "mapWalk{budget: s.walk.budget}", "mapWalk{budget: int(s.screen.maxStream)}"),
		one("frame", "a compound may hold what nobody packs", plainGo, "	case compoundMsg, compressMsg:\n", "	case 255:\n"),
		one("frame", "the parts of a compound are not looked at", plainGo, "if r := message(rest[:n]); r != \"\" {", "if r := message(rest[:n]); false {"),
		one("frame", "what is behind a checksum is not looked at", plainGo, "b = b[crcHead:] //", "return \"\" //"),
		one("frame", "user messages come by streams", plainGo, "	case userMsg, compressMsg:\n", "	case compressMsg:\n"),
		one("frame", "compressed messages come by streams", plainGo, "	case userMsg, compressMsg:\n", "	case userMsg:\n"),
		one("frame", "only the first map of a table is looked at", plainGo, "		if !s.table {\n", "		if true {\n"),
		one("frame", "anybody opens as many streams as he likes", "netgossip/swim/transport_ledger.go", "accepted && len(s.open) >= maxStreams", "false"),
		one("frame", "a refused stream is counted as cut, too", "netgossip/swim/journal.go", "if strings.Contains(text, errFrame.Error()) {", "if false {"),
		one("replay", "a packet is a sign of life whenever it comes", clockGo, "	return max(0, min(came,", "	return max(came, min(came,"),
		one("replay", "a packet that is older than this process is a sign of life", clockGo, "		return 0 // it may be older than this process\n", "		return came\n"),
		one("replay", "a packet of another boot is a sign of life", clockGo, "		return 0 // of another boot than the one that answered\n", "		return came\n"),
		one("replay", "a packet without a clock is a sign of life of who tells it", clockGo, "		return 0 // from before its upgrade, or its first statement\n", "		return came\n"),
		one("replay", "an answer that was overtaken dates the packets", clockGo, "ok && d < 0 && c.theirs", "ok && d < -1<<62 && c.theirs"),
		one("replay", "clocks do not drift", clockGo, "d+max(0, d)/drift", "d"),
		one("replay", "packets are never dated later than the answer", clockGo, "c.ours.Add(d+max(0, d)/drift)", "c.ours.Add(min(d, 0))"),
		one("heal", "a death is dated by the suspicion, not by the probe that failed", "netgossip/bound.go", "min(p.ProbeInterval+p.SuspicionMin(1),", "min(p.SuspicionMin(1),"),
	}
	for i := range list {
		list[i].in = []string{"./netgossip/swim"}
	}
	samples := []mutant{
		one("samples", "a network with carrier takes its part of the samples", vouchGo, "if up && m.vouches(m.link(k, p)) {", "if up && k >= 0 {"),
		one("heal", "an old accusation voids an answer of a peer that does not see us yet", "netgossip/merge.go", "l.answer <= l.lostAt {", "l.contact <= l.lostAt {"),
		one("heal", "a vouch outlives the death of its peer", "netgossip/merge.go", "l.answer <= l.lostAt {", "false {"),
		one("samples", "the mean of all peers counts, not of the worst", vouchGo, "	worst := int(math.Ceil(gone * float64(n)))\n", "	worst := n\n"),
		one("samples", "one broken cable costs as much as a network", vouchGo, "	return math.Floor(8*float64(sum)/float64(worst)) / 8\n", "	return float64(sum / worst)\n"),
	}
	for i := range samples {
		samples[i].in = []string{"./netgossip"}
	}
	return append(list, samples...)
}
