package main

const sealGo = "netgossip/swim/seal.go"

// swimMutants are the guards of what comes over the wire.
func swimMutants() []mutant {
	list := []mutant{
		one("frame", "a packet of version 0 gets as far as memberlist", sealGo, "	return version(sealed[0])\n", "	return \"\"\n"),
		one("frame", "a stream of version 0 gets as far as memberlist", sealGo, "	return version(frame[5]), false\n", "	return \"\", false\n"),
		one("frame", "a stream that seals nothing gets as far as memberlist", sealGo, "n <= leastSealed || n > s.maxStream", "n > s.maxStream"),
		one("frame", "a stream may be as large as it says", sealGo, "n <= leastSealed || n > s.maxStream", "n <= leastSealed"),
		one("frame", "a stream without a label is not looked at", sealGo, "	if head[0] == labelByte {\n", "	if head[0] != labelByte {\n		return \"\", false\n	} else {\n"),
		one("frame", "a stream is looked at once, however little came", sealGo, "	if !more {\n", "	if !more || r == \"\" {\n"),
		one("frame", "the sockets do not look at packets", "netgossip/swim/transport_sockets.go", " || !t.ledger.opens(in.buf[:n], from.Addr())", ""),
		one("frame", "a foreign transport is not looked at", "netgossip/swim/transport_meter.go", " || !m.ledger.opens(p.Buf, from)", ""),
		one("frame", "streams are not looked at", "netgossip/swim/transport_ledger.go", "mute: accepted, seals: s.ledger.seals}", "mute: accepted}"),
		one("frame", "anybody opens as many streams as he likes", "netgossip/swim/transport_ledger.go", "accepted && len(s.open) >= maxStreams", "false"),
		one("frame", "a refused stream is counted as cut, too", "netgossip/swim/journal.go", "if strings.Contains(text, errFrame.Error()) {", "if false {"),
	}
	for i := range list {
		list[i].in = []string{"./netgossip/swim"}
	}
	return list
}
