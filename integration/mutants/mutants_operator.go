package main

// operatorMutants take away what operators rely on when they look at a status.
func operatorMutants() []mutant {
	const mergeGo = "netgossip/merge.go"
	const lunadmin, fencectl = "./diskquorum/lunadmin", "./cmd/fencectl"
	tool := func(in, what, file, from, to string) mutant {
		m := one("fencectl", what, in+"/"+file, from, to)
		m.edits[0].file, m.in = m.edits[0].file[2:], []string{in}
		return m
	}
	list := []mutant{
		one("last answer", "a death takes it from the status", mergeGo, "max(l.proven, m.evidence(network, p)), reachable", "m.evidence(network, p), reachable"),
		one("last answer", "what was vouched for is forgotten with a death", mergeGo, "		l.proven = max(l.proven, min(m.evidence(network, p), at))\n", ""),
		one("last answer", "it counts as evidence", mergeGo, "	at := m.evidence(network, p)\n", "	at := max(m.link(network, p).proven, m.evidence(network, p))\n"),
	}
	for i := range list {
		list[i].in = []string{"./netgossip"}
	}
	list = append(list,
		tool("./api/view", "an older agent's lost peer has never answered", "matrix.go", "peer.GetEvidenceAge() == nil && peer.GetStateAge() != nil", "peer.GetEvidenceAge() == nil && peer == nil"),
		tool(fencectl, "a live page cuts what is too long", "watch_status.go", "lines = append(lines, fold(line, width-1)...)", "lines = append(lines, line)"),
		tool(fencectl, "what takes long is silent off a terminal", "cmd_lun.go", "p.env.warn(*p.text.Load())", "_ = p.text.Load()"),
		tool(fencectl, "half of a key is left behind by a disk that is full", "makefile.go", "defer func() { _ = os.Remove(t.Name()) }()", "defer func() {}()"),
		tool(fencectl, "a key is written over that was made meanwhile", "makefile.go", "errors.Is(err, fs.ErrExist) {\n		return err", "false {\n		return err"),
		tool(fencectl, "what a failed command has said is taken for no answer", "kube.go", "return text, explainKubectl(", "return text[:0], explainKubectl("),
		tool(fencectl, "the tunnel to the page leads to other hosts", "cmd_page_tunnel.go", "if !ofThisNode(a.IP) {", "if false && !ofThisNode(a.IP) {"),
		tool(fencectl, "the tunnel to the page leads where its caller says", "cmd_page_tunnel.go", "if !info.Mode().IsRegular() {", "if info == nil {"),
		tool(lunadmin, "an interrupted import does not tell what it wrote", "import.go", "stoppedOnTheWay(err, \"import\", o.Path, r.progress())", "err"),
		tool(lunadmin, "an interrupted watch does not tell that nothing was written", "import.go", "stoppedOnTheWay(err, \"import\", o.Path, untouched)", "err"),
		tool(lunadmin, "a released slot is not told when its owner is looked for no longer", "release.go", "return stoppedOnTheWay(err, \"release-slot\", r.path,\n			fmt.Sprintf(\"slot", "return stoppedOnTheWay(err, \"\", \"\",\n			fmt.Sprintf(\"SLOT"),
	)
	for i := range list {
		list[i].rule = "operator: " + list[i].rule
	}
	return list
}
