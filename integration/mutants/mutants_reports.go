package main

// reportMutants take away what holds deaths that agents tell a controller to what holds for those that they write on their Nodes.
func reportMutants() []mutant {
	const report, desk = "k8s/deaths/report.go", "cmd/fencing-controller/members/deaths.go"
	const calls, index, setup, teller = "k8s/reconcile/calls.go", "k8s/reconcile/index.go", "k8s/reconcile/setup.go", "cmd/fencing-agent/members/deaths.go"
	list := []mutant{
		one("report", "what a boot told that is over counts", report, "case !IsBoot(now.Boot) || now.Boot != boot:", "case !IsBoot(now.Boot):"),
		one("report", "a late word takes the place of a later one", report, "case was != nil && was.Boot == now.Boot && now.At <= was.At:", "case false:"),
		one("report", "a word of the next boot is late", report, "was.Boot == now.Boot && now.At <= was.At", "now.At <= was.At"),
		one("report", "what was written later does not count", report, "if told == nil || told.Over != Digest(annotation) {", "if told == nil {"),
		one("report", "what was told later does not count", report, "if told == nil || told.Over != Digest(annotation) {", "if told == nil || annotation != \"\" {"),
		one("report", "what was told counts for ever", report, "(age > Valid || age < -Valid)", "age < -Valid"),
		one("report", "what is told in the future counts", report, "(age > Valid || age < -Valid)", "age > Valid"),
		one("report", "silence takes deaths back", report, "		return nil, true\n", "		return nil, false\n"),
		one("report", "what was written comes to life when what was told counts no more", report, "		return nil, true\n", "		list, _ = Decode(annotation)\n		return list, Full(annotation)\n"),
		one("report", "anybody's copy counts", report, "if err == nil && ReportName(r.Node) != name {", "if false {"),
		one("report", "a book is read for a report", report, "if labels[ReportLabel] != ReportValue {", "if false {"),
		one("report", "the Node's boot is not asked for", desk, "		if err := deaths.Accept(was, *now, by.Boot)", "		by.Boot = now.Boot\n		if err := deaths.Accept(was, *now, by.Boot)"),
		one("report", "what is told is not compared with what is kept", desk, "deaths.Accept(was, *now, by.Boot)", "deaths.Accept(nil, *now, by.Boot)"),
		one("report", "a report is kept without the annotation that it follows", desk, "now.Over, now.Heard = deaths.Digest(by.Annotation), time.Now()", "now.Heard = time.Now()"),
		one("report", "a report is written over another one", desk, "if m.ResourceVersion = version; version == \"\" {", "if version == \"\" {"),
		one("report", "a node may tell without end", desk, "if now.Sub(s.told[what]) < tellPause {", "if false {"),
		one("report", "who asks changes what is kept", desk, "		if ask {\n			return deaths.Last(by.Annotation, was), nil\n		}\n", ""),
		one("report", "what is told belongs to any Node of that name", desk, "Name: node, UID: by.UID}", "Name: node}"),
		one("report", "a death waits for the right to change an owner", desk, "	if version != \"\" && apierrors.IsForbidden(err) {", "	if false {"),
		one("report", "a death of no boot is kept", desk, "!deaths.IsBoot(d.GetBoot()) || ", ""),
		one("report", "what nobody can read is taken for silence", calls, "errors.Is(err, deaths.ErrUnreadable) {\n				continue\n			}", "errors.Is(err, deaths.ErrUnreadable) {\n				told, err = nil, nil\n			}"),
		one("report", "what is not known now is taken for silence", calls, "			if err != nil {\n				return reply(err, recovery.Reply{})\n			}\n		}\n		nodes", "		}\n		nodes"),
		one("report", "an annotation that goes takes the report with it", index, "		delete(x.group, node)\n		delete(x.told, node)\n", "		delete(x.group, node)\n		delete(x.told, node)\n		delete(x.reported, node)\n"),
		one("report", "what an agent tells wakes nobody", setup, "		touched := r.index.report(told.Node, list)\n", "		r.index.report(told.Node, list)\n		var touched []string\n"),
		one("report", "silence of the controller is taken for an answer", teller, "			t.failed(ctx, err, &patience)\n			continue\n		}\n		s := ", "			t.failed(ctx, err, &patience)\n		}\n		s := "),
		one("report", "deaths are told once", teller, "case value == said && repeat > 0:", "case value == said && repeat >= 0:"),
		one("report", "what was said before a restart counts as told", teller, "due := t.clock() // what", "due := t.clock().Add(deaths.Again) // what"),
		one("report", "one replica that is older keeps a death waiting", teller, "unheard: client.Backoff{First: tellFirst,", "unheard: client.Backoff{First: tellUnheard,"),
		one("report", "a withdrawal waits for its turn", teller, "value == said || within == 0 {", "value == said || within < 0 {"),
	}
	for i := range list {
		list[i].in = []string{"./k8s/deaths", "./k8s/reconcile", "./cmd/fencing-controller/members", "./cmd/fencing-agent/members"}
	}
	return list
}
