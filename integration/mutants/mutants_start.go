package main

// startMutants take away what lets an agent start with what there is, and what still ends its start (docs/adr/0071).
func startMutants() []mutant {
	const (
		followGo   = "cmd/fencing-agent/gossip/follow.go"
		instanceGo = "cmd/fencing-agent/gossip/instance.go"
		networksGo = "cmd/fencing-agent/gossip/networks.go"
		findGo     = "netgossip/iface/find.go"
		partsGo    = "cmd/fencing-agent/parts/parts.go"
		listenGo   = "api/publish/listen.go"
		publishGo  = "cmd/fencing-agent/agent/publish.go"
		guardGo    = "cmd/fencing-agent/agent/guard.go"
		probeGo    = "watchdog/wdt/probe.go"
		holderGo   = "watchdog/wdt/holder.go"
	)
	gossip, iface, agent, wdt := "./cmd/fencing-agent/gossip", "./netgossip/iface", "./cmd/fencing-agent/agent", "./watchdog/wdt"
	in := func(pkg, what, file, from, to string) mutant {
		m := one("start", what, file, from, to)
		m.in = []string{pkg}
		return m
	}
	return []mutant{
		in(gossip, "a network that is away ends the start", networksGo, "		case errors.As(err, &no):\n", "		case err != nil:\n			_ = errors.As(err, &no)\n"),
		in(gossip, "the address of another member is waited out", networksGo, "		case errors.As(err, &no):\n", "		case errors.As(err, &no) && false:\n"),
		in(gossip, "a network that is away counts as up", followGo, "	if !w.lost {\n		n.cfg.LinkChanged(i, false)\n	}\n", ""),
		in(gossip, "a network that has come counts as down", followGo, "		n.cfg.LinkChanged(i, true)\n", ""),
		in(gossip, "a network that has come is not watched", followGo, "		n.cfg.LinkChanged(i, true)\n		n.watch(ctx, i)\n", "		n.cfg.LinkChanged(i, true)\n"),
		in(gossip, "a network that was lost is watched on", followGo, "	w.present.Store(nil)\n	w.unwatch()\n", "	w.present.Store(nil)\n"),
		in(gossip, "gossip goes on from an address that is not the listed one", instanceGo, "	case n.cfg.AddressesFollow:\n", "	case n.cfg.AddressesFollow || want != \"\":\n"),
		in(gossip, "two networks share an address and a port", instanceGo, "in != nil && other.Name != sn.Name &&", "in == nil && other.Name != sn.Name &&"),
		in(gossip, "the listed address that comes back is not taken", followGo, "in.roster == r && !n.astray(i, in)", "in.roster == r"),
		in(iface, "of several addresses in a prefix the listed one is not taken", findGo, "ok && p.Contains(listed)", "ok && !p.Contains(listed)"),
		in(iface, "of several addresses of an interface the listed one is not taken", findGo, "			rank += 4\n", "			rank += 0\n"),
		in(iface, "a virtual address may be meant where no list says so", findGo, "		case a.secondary || a.single:\n", "		case a.secondary:\n"),
		in("./cmd/fencing-agent/parts", "what is missing is not in the metric", partsGo, "		value = 1\n", "		value = 0\n"),
		in("./cmd/fencing-agent/parts", "a missing part is not tried again", partsGo, "		if l.Note(part, err); err == nil {", "		if l.Note(part, err); err == nil || err != nil {"),
		in("./api/publish", "an empty folder keeps the socket away", listenGo, "		return emptyFolder, nil\n", "		return nothing, errors.New(\"there is a folder\")\n"),
		in("./api/publish", "a socket that is served is waited for", listenGo, "		return nothing, &RefusedError{fmt.Errorf(\"%v is serving it: stop that first or change api.socket\", who), int(who.pid)}\n", "		return nothing, fmt.Errorf(\"%v is serving it: stop that first or change api.socket\", who)\n"),
		in(agent, "a served socket does not end the start", publishGo, "errors.As(err, &refused) {", "errors.As(err, &refused) && false {"),
		in(agent, "a file as watchdog does not end the start", guardGo, "errors.As(missing, &wrong) {", "errors.As(missing, &wrong) && false {"),
		in(agent, "a watchdog that is missing is not said to be", guardGo, "	g.parts.Note(watchdogPart, missing)\n", ""),
		in(wdt, "the watchdog of another agent is waited for", holderGo, "		return &WrongError{held} // Invariant", "		return held // Invariant"),
		in(wdt, "a file is waited for to become a watchdog", probeGo, "		return &WrongError{err} // a file, or a folder\n", "		return err\n"),
	}
}
