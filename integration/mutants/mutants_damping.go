package main

// dampingMutants are the guards of flap damping (docs/adr/0072).
func dampingMutants() []mutant {
	const dampingGo = "watchdog/damping.go"
	at := func(what, file, from, to string) mutant {
		m := one("damping", what, file, from, to)
		m.in = []string{watchdogs}
		return m
	}
	damp := func(what, from, to string) mutant { return at(what, dampingGo, from, to) }
	pub := func(what, from, to string) mutant { return at(what, publicationGo, from, to) }
	const hide = "	avail = avail.Minus(p.flapping)\n"
	return []mutant{
		pub("a node that flaps is published", hide, ""),
		pub("a node that flaps stays published", hide, "	avail = avail.Minus(p.flapping.And(avail).Minus(shown)).Union(p.flapping.And(shown))\n"),
		pub("who flaps is not seen", hide, hide+"	c.view.Seen = c.view.Seen.Minus(p.flapping)\n"),
		pub("who is held is LEFT once more", "	c.fx.Left = gone.And(shown)\n", "	c.fx.Left = gone\n"),
		pub("who is held has come back each time", "	before := p.present\n", "	before := c.fx.Available\n"),
		damp("another's flaps make a LEFT", "f.at == now && f.penalty >= flapSuppress", "f.level(now) >= flapSuppress"),
		damp("a hold has no end", "		if now >= p.peers[i].flaps.until {\n", "		if false {\n"),
		damp("a hold grows without end", "min(f.level(now)+1, flapMost)", "f.level(now)+1"),
		damp("a hold does not grow", "min(f.level(now)+1, flapMost)", "min(f.level(now)+1, 2.9)"),
		damp("penalties do not sink", "	return f.penalty * math.Exp2(-float64(now.Sub(f.at))/float64(flapHalfLife))\n", "	return f.penalty\n"),
		damp("two returns are flapping", "	flapSuppress = 2.5\n", "	flapSuppress = 1.5\n"),
		damp("only the tenth return is flapping", "	flapSuppress = 2.5\n", "	flapSuppress = 5.5\n"),
		damp("a majority is held", "	if 2*restless >= members {\n", "	if false {\n"),
		damp("half of the group is held", "2*restless >= members", "2*restless > members"),
		damp("who was held before this node flapped is held on", "		p.flapping = roster.Set{}\n		return\n", "		return\n"),
		damp("who said that it goes away has flapped", "LeftRestartOverdue, LeftRebooted:", "LeftRestartOverdue, LeftRebooted, LeftLeaving:"),
		damp("who is back for the first time has flapped", "		case LeftUnreachable, LeftDoubted,", "		case 0, LeftUnreachable, LeftDoubted,"),
		damp("the end of a hold does not wake", "		next = min(next, p.peers[i].flaps.until)\n", "		_ = i\n"),
		at("a hold keeps the numbers of the list before", "watchdog/rosters.go", "p.present, p.flapping = n.Set(p.present), n.Set(p.flapping)", "p.present = n.Set(p.present)"),
	}
}
