package main

// distributedMutants take away what makes two replicas at one app harmless, and what keeps apps from being nobody's.
func distributedMutants() []mutant {
	const plan, core, rank = "k8s/distributedapp/plan.go", "k8s/distributedapp/core.go", "k8s/ownership/ownership.go"
	list := []mutant{
		one("distributedapp D1", "a write of the app has no precondition", plan, "		w.UID, w.Version = f.App.UID, f.App.Version\n", ""),
		one("distributedapp D2", "pods are made before the finalizer is there", plan, "case !f.App.Finalizer: // D2", "case !f.App.Finalizer && len(mine) > 0: // D2"),
		one("distributedapp D2", "the finalizer goes while pods end", plan, "if len(mine) > 0 { // D2", "if false { // D2"),
		one("distributedapp D3", "everybody's pods are the app's", plan, "if p.Owner == uid {", "if p.Owner == uid || p.Owner == \"\" {"),
		one("distributedapp D4", "an older configuration writes over a newer one", plan, "f.Config.Version == 0 || f.App.Status.Config.Version > f.Config.Version", "f.Config.Version == 0"),
		one("distributedapp D4", "a replica that has read no configuration reconciles", plan, "f.Config.Version == 0 || f.App", "f.App"),
		one("distributedapp D5", "a message is believed", core, "			c.readConfig = true\n", "			c.config = m.Config\n"),
		one("distributedapp D6", "a status makes the app due", core, "		e.app = a // D6\n		return\n", "		e.app = a // D6\n"),
		one("distributedapp", "who is not first never looks", core, "time.Duration(c.set.Rank(k.String(), c.set.Self, c.members)) * c.set.Pause", "time.Duration(c.set.Rank(k.String(), c.set.Self, c.members)) * time.Hour"),
		one("distributedapp", "a write that failed is forgotten", core, "	case Conflict, Failed:\n", "	case Conflict, Failed:\n		return\n"),
		one("distributedapp", "a deletion waits for ever for a calm list", plan, " && f.Now.Before(f.App.DeletedAt.Add(stableLimit*f.Stable))", ""),
		one("distributedapp", "strangers make it read without bound", core, "if len(c.reads) < mostReads {", "if true {"),
		one("distributedapp", "two are first by the remainder", rank, "(at - first + len(all)) % len(all)", "max(0, at-first)"),
	}
	for i := range list {
		list[i].in = []string{"./k8s/distributedapp", "./k8s/ownership"}
	}
	return append(list, appOperatorMutants()...)
}

// appOperatorMutants take away what the writes of the operator rest on, and what bounds its messages.
func appOperatorMutants() []mutant {
	const look, config, runner = "k8s/distributedapp/operator/look.go", "k8s/distributedapp/operator/config.go", "k8s/distributedapp/operator/runner.go"
	const gossip, wire = "k8s/distributedapp/gossip/gossip.go", "k8s/distributedapp/gossip/wire.go"
	const operator, transport = "./k8s/distributedapp/operator", "./k8s/distributedapp/gossip"
	list := []mutant{
		one("operator O1", "a patch has no resourceVersion", look, `metadata["uid"], metadata["resourceVersion"] = w.UID, w.Version // O1`, `metadata["uid"] = w.UID`),
		one("operator O1", "a patch has no UID", look, `metadata["uid"], metadata["resourceVersion"] = w.UID, w.Version // O1`, `metadata["resourceVersion"] = w.Version`),
		one("operator O2", "a deletion has no precondition", look, "client.Preconditions{UID: &uid, ResourceVersion: &w.Version}", "client.Preconditions{UID: &uid}"),
		one("operator O3", "a pod is made by a name of the server's", look, "Namespace: d.Namespace, Name: name, Labels", `Namespace: d.Namespace, GenerateName: name + "-", Labels`),
		one("operator O4", "half of a bad configuration is taken up", look, "	if err != nil { // O4\n", "	if err != nil && c.Version == 0 { // O4\n"),
		one("operator O4", "a key that is unknown is passed over", config, "		default:\n			errs = append(errs, fmt.Errorf(\"%s is no key", "		default:\n			_ = append(errs, fmt.Errorf(\"%s is no key"),
		one("operator", "messages wait without bound", runner, "full := r.hints >= mostMessages", "full := false"),
		one("operator", "an app that is due while it is looked at is forgotten", runner, "			r.again[k] = true\n", ""),
		one("operator", "an app that is made again under its name is forgotten", look, "	case gone && shown:", "	case gone && shown && k.Name == \"\":"),
		one("operator", "a write that was refused counts as settled", look, "		o = distributedapp.Conflict\n", ""),
		one("operator", "a newer configuration that a look finds is not read", look, "	if s.ReadConfig {\n", "	if false {\n"),
		one("operator", "each message has the configuration read", look, "r.config || now.Before(r.configAt)", "r.config"),
		one("operator gossip", "messages for one member wait without bound", gossip, "g.ended || len(l.waiting) >= mostWaiting", "g.ended"),
		one("operator gossip", "peers are joined once", gossip, "		case <-tick.C:\n", "		case <-make(chan int):\n"),
		one("operator gossip", "the key is not used", gossip, "c.Label, c.Keyring = label, o.Keyring", "c.Label = label"),
		one("operator gossip", "a message of any kind is taken", wire, "m.Kind != distributedapp.Reconcile && m.Kind != distributedapp.Delete", "m.Kind == \"\""),
	}
	for i := range list {
		list[i].in = []string{operator}
		if i >= len(list)-4 {
			list[i].in = []string{transport}
		}
	}
	return list
}
