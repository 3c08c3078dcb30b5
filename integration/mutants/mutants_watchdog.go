package main

// watchdogMutants take away what fencectl watchdog test looks at before it arms one. There is none for its flag: the test of
// that would reset the machine on which it runs.
func watchdogMutants() []mutant {
	const command, trial = "cmd/fencectl/cmd_watchdog.go", "cmd/fencectl/trial/trial.go"
	list := []mutant{
		one("watchdog test", "one that somebody holds is opened", command, "		if len(d.Holders) > 0 {\n			return w", "		if len(d.Holders) > 9 {\n			return w"),
		one("watchdog test", "one that may count down is opened", command, `		if d.State != "inactive" {`, `		if d.State == "active" {`),
		one("watchdog test", "one that counts down is opened", command, `		if d.State != "inactive" {`, `		if d.State == "" {`),
		one("watchdog test", "the node of an agent is reset", command, "	if m.AgentRuns() {", "	if m.AgentRuns() && len(list) > 9 {"),
		one("watchdog test", "one of two is taken", command, `	case device == "" && len(list) > 1:`, `	case device == "" && len(list) > 2:`),
		one("watchdog test", "nobody will know that it was a test", trial, "	if err := t.Last(); err != nil {", `	if err := t.Last(); err != nil && t.Name == "" {`),
		one("watchdog test", "what is called off is not disarmed", trial, "		return t.disarmed(ErrCalledOff)", "		return ErrCalledOff"),
		one("watchdog test", "one that did not fire stays armed", trial, "	return t.disarmed(fmt.Errorf(\"%s (%s) did NOT", "	return (fmt.Errorf(\"%s (%s) did NOT"),
	}
	for i := range list {
		list[i].in = []string{"./cmd/fencectl/trial", "./cmd/fencectl"}
	}
	return list
}
