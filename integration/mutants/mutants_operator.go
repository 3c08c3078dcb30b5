package main

// operatorMutants take away what operators rely on when they look at a status.
func operatorMutants() []mutant {
	const mergeGo = "netgossip/merge.go"
	list := []mutant{
		one("last answer", "a death takes it from the status", mergeGo, "max(l.proven, m.evidence(network, p)), reachable", "m.evidence(network, p), reachable"),
		one("last answer", "what was vouched for is forgotten with a death", mergeGo, "		l.proven = max(l.proven, min(m.evidence(network, p), at))\n", ""),
		one("last answer", "it counts as evidence", mergeGo, "	at := m.evidence(network, p)\n", "	at := max(m.link(network, p).proven, m.evidence(network, p))\n"),
	}
	for i := range list {
		list[i].rule, list[i].in = "operator: "+list[i].rule, []string{"./netgossip"}
	}
	return list
}
