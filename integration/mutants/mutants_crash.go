package main

// crashMutants take away what keeps a message from being a proof that it is not.
func crashMutants() []mutant {
	const book, machine, listener = "k8s/kdump/kdump.go", "k8s/nodefence/crash.go", "k8s/fencing/crashes.go"
	list := []mutant{
		one("kdump", "one message is enough", book, "if h.last.After(h.read) && h.last.Sub(h.first) >= Apart {", "if true {"),
		one("kdump", "two at once are two", book, "h.last.Sub(h.first) >= Apart {", "true {"),
		one("kdump", "a boot that began after the message is meant", book, "if h.last.After(h.read) && ", "if "),
		one("kdump", "a kubelet that goes on changes nothing", book, "h.read.IsZero() || h.shown != shows:", "h.read.IsZero():"),
		one("kdump", "a Node that is Ready has crashed", book, "case shows.Ready || now.Sub(h.last) > Quiet:", "case now.Sub(h.last) > Quiet:"),
		one("kdump", "whatever has the magic is a message", book, "if v := order.Uint32(b[4:]); v != version {", "if v := order.Uint32(b[4:]); v == 0 {"),
		one("nodefence", "a message counts where nobody has said kdump=true", machine, "return f.Config != nil && f.Config.Kdump && !f.Node.Ready", "return f.Config != nil && !f.Node.Ready"),
		one("nodefence", "a message of another boot is a proof", machine, "f.Crash.Boot != \"\" && f.Crash.Boot == f.Node.Boot", "f.Crash.Boot != \"\""),
		one("nodefence", "the power is cut while the dump is written", machine, "return d.Now.Before(over) &&", "return d.Now.Before(over) && false &&"),
		one("nodefence", "a dump keeps the power on for ever", machine, " && d.Now.Before(s.Dump.Since.Add(d.Cluster.MostDump))", ""),
		one("nodefence", "what a message said is not doubted", "k8s/nodefence/proof.go", "case p == nil || p.Contradicted ||", "case p == nil || p.Kind == ByKdump || p.Contradicted ||"),
		one("fencing", "an address of two Nodes is one of them", listener, "			o[a] = \"\"\n", ""),
	}
	for i := range list {
		list[i].in = []string{"./k8s/" + list[i].rule}
		list[i].rule = "kdump: " + list[i].rule
	}
	return list
}
