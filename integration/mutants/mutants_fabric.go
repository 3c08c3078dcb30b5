package main

// fabricMutants take away what lets the volumes of one storage, and no others, be taken from a node that was cut off from it.
func fabricMutants() []mutant {
	const storage, plan, decide, step = "k8s/nodefence/storage.go", "k8s/nodefence/plan.go", "k8s/nodefence/decide.go", "k8s/nodefence/step.go"
	const config, pod = "k8s/fenceconfig/config.go", "k8s/fencing/job.go"
	list := []mutant{
		one("nodefence", "a storage is severed before the time that is vouched for", storage, "From: d.Now.Add(vouched)", "From: d.Now"),
		one("nodefence", "a storage is severed by one of its paths", storage, "all = all && e != nil && e.State == Succeeded", "all = e != nil && e.State == Succeeded"),
		one("nodefence", "a storage is severed for whatever boot", storage, " || n.Boot != s.Boot || driver", " || driver"),
		one("nodefence", "a storage is severed while the kubelet is heard", storage, " || !n.Silent || ", " || "),
		one("nodefence", "each storage is severed", storage, "return v.Driver == driver && v.Returned", "return v.Returned"),
		one("nodefence", "a storage is severed while it is given back", storage, "&& v.Returned.IsZero() && !now.Before(v.From)", "&& !now.Before(v.From)"),
		one("nodefence", "a storage is given back under those who take its volumes", step, "	if a, ok := d.givesBack(p.next[0]); ok {\n		return a\n	}\n", ""),
		one("nodefence", "a storage is given back as soon as that was said", storage, "len(s.Storages) > 0 && d.Returning < ReturnWait", "false"),
		one("nodefence", "a reset needs no word of its executor", decide, "e.Barrier && !j.Barrier:", "false:"),
		one("nodefence", "what registers its machine runs while the node is off", plan, "return m.HostDevices }))", "return false }))"),
		one("fencing", "who asks a device checks a plug", "k8s/fencing/monitor.go", "args[len(args)-1] = \"monitor\"", "_ = args"),
		one("fencing", "all devices are asked right after a start", "k8s/fencing/monitor.go", "began.Before(r.monitorFrom)", "began.IsZero()"),
		one("fencing", "devices are asked while a node is not Ready", "k8s/fencing/runner.go", "	if len(work) > 0 {\n		return busyRound, nil\n	}\n	if err := r.monitor(ctx, c); err != nil {", "	if err := r.monitor(ctx, c); err != nil {"),
		one("fencing", "who asks a device keeps it from who fences", "k8s/fencing/runner.go", "if err := r.clear(ctx); err != nil {", "if err := ctx.Err(); err != nil {"),
		one("fencing", "what has failed is reachable", "k8s/fencing/monitor.go", "		if o.Succeeded {\n", "		if o.Finished {\n"),
		one("fencing", "what may be older than the image keeps a node from being fenced", "k8s/fencing/runner.go", "c := fenceconfig.Read(objects, nil)", "c := fenceconfig.CheckAgents(objects, json.Unmarshal)"),
		one("fencing", "what asks once more switches off", pod, "case nodefence.Check, nodefence.Again:", "case nodefence.Check:"),
		one("fencing", "a node is taken back by another one", pod, "	if action == fenceconfig.On {\n", "	if action == fenceconfig.On && false {\n"),
		one("fenceconfig", "a storage needs no barrier", "k8s/fenceconfig/storage.go", "err != nil || seconds < 1 || seconds > 86400 || strconv.Itoa(seconds) != barrier:", "barrier != \"\" && err != nil:"),
		one("fenceconfig", "two nodes have one key", config, "if key := m.option(\"key\"); key != \"\" {", "if key := \"\"; key != \"\" {"),
		one("executor", "one reset is enough", "cmd/fencing-executor/barrier.go", "if err != nil {\n			return fmt.Errorf(\"reset of the logical unit %s: %s\"", "if err != nil && device == devices[0] {\n			return fmt.Errorf(\"reset of the logical unit %s: %s\""),
		one("storagewatch", "a node is back before its fencing is over", "k8s/storagewatch/nodefences.go", "case fence == nil && isReady:", "case isReady:"),
	}
	for i := range list {
		switch rule := list[i].rule; rule {
		case "executor":
			list[i].in = []string{"./cmd/fencing-executor"}
		default:
			list[i].in = []string{"./k8s/" + rule}
		}
		list[i].rule = "fabric: " + list[i].rule
	}
	return list
}
