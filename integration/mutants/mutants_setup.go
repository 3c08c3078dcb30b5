package main

// setupMutants take away what somebody relies on who sets a group up.
func setupMutants() []mutant {
	const (
		reviewGo = "cmd/fencing-agent/config/review.go"
		checkGo  = "cmd/fencing-agent/config/check.go"
		tableGo  = "cmd/fencectl/cmd_config.go"
	)
	list := []mutant{
		one("config check", "a file for all nodes is checked for the first", checkGo, "		for _, i := range bound(c) {\n", "		for _, i := range bound(c)[:1] {\n"),
		one("config check", "a file with one node's address is checked for all", reviewGo, "	if len(some) == 0 {\n", "	if true {\n"),
		one("config check", "an agent starts where it is no member", "cmd/fencing-agent/config/load.go", "		if r.everyNode && len(", "		if len("),
		one("config check", "a missing key is kept quiet", reviewGo, `	if c.Gossip.KeyFile == "" {`, `	if c.Gossip.KeyFile == "none" {`),
		one("config check", "a single network is kept quiet", reviewGo, "	if len(c.SystemNetworks) == 1 {", "	if len(c.SystemNetworks) == 0 {"),
		one("config check", "a name of the kernel is kept quiet", reviewGo, "		if unstable.MatchString(filepath.Base(path)) {", "		if unstable.MatchString(filepath.Base(path) + \"/\") {"),
		one("config check", "a tie-breaker is left out without a word", "cmd/fencing-agent/config/breakers.go", "!c.UsesKubernetes() && r.intact(\"kubernetes\", \"kubernetes.kubeconfig\") {\n\t\tr.warn(key, \"cannot", "c.UsesKubernetes() && r.intact(\"kubernetes\", \"kubernetes.kubeconfig\") {\n\t\tr.warn(key, \"cannot"),
		one("config check", "who lives on is promised to be fenced", tableGo, "	if c.OnQuorumLoss != config.LossFence {", "	if c.OnQuorumLoss != config.LossFence && w == 0 {"),
	}
	for i := range list {
		list[i].in = []string{"./cmd/fencing-agent/config", "./cmd/fencectl"}
	}
	multipath := one("multipath", "what cannot be read is in order", "diskquorum/rawdev/advice.go", "	if err != nil { // an agent", "	if err != nil && name == \"\" { // an agent")
	multipath.in = []string{"./diskquorum/rawdev"}
	schema := one("chart", "a key that the agent does not know is passed on", "cmd/fencing-agent/config/schema.go", `"additionalProperties": false,`, `"additionalProperties": true,`)
	schema.in = []string{"./integration/deploy"}
	list = append(list, multipath, schema)
	for i := range list {
		list[i].rule = "setup: " + list[i].rule
	}
	return list
}
