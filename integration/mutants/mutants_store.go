package main

// storeMutants are the guards of a watchdog's descriptor that outlives its agent (adr/0032).
func storeMutants() []mutant {
	const (
		storeGo  = "watchdog/wdt/store.go"
		deviceGo = "watchdog/wdt/device.go"
		fdGo     = "cmd/fencing-agent/fdstore/fdstore.go"
		wdt      = "./watchdog/wdt"
		fdstore  = "./cmd/fencing-agent/fdstore"
	)
	in := func(pkg, what, file, from, to string) mutant {
		m := one("0032", what, file, from, to)
		m.in = []string{pkg}
		return m
	}
	return []mutant{
		in(wdt, "a descriptor is taken while the agent before lives", storeGo, "	if !d.gone() {\n		return false, err", "	if false {\n		return false, err"),
		in(wdt, "a descriptor is taken while another process has it", storeGo, "storeHolder); holder != nil {", "storeHolder); holder != nil && d == nil {"),
		in(wdt, "a descriptor of a stopped watchdog is taken", storeGo, "	if d.runs(f.name) {", "	if f.isWatchdog {"),
		in(wdt, "sysfs of another watchdog is believed", deviceGo, "err == nil && taken && !d.runs(d.name) {", "err == nil && taken && d == nil {"),
		in(wdt, "a descriptor of another watchdog is taken", storeGo, "	return err == nil && slices.Contains(f.rdevs, rdev)\n", "	return err == nil && (true || slices.Contains(f.rdevs, rdev))\n"),
		in(wdt, "a condemned descriptor is not looked at", storeGo, "	if !d.left(f) {\n		return c, false", "	if true {\n		return c, false"),
		in(wdt, "a descriptor is kept without sysfs", storeGo, " || !d.gone() || !d.runs(d.name) {", " || !d.gone() {"),
		in(wdt, "a descriptor is kept without the lock", storeGo, "d.kept || !d.gone() ||", "d.kept ||"),
		in(wdt, "a kept watchdog is disarmed by its close", deviceGo, "	if d.name == \"\" || d.kept {", "	if d.name == \"\" {"),
		in(wdt, "the magic character is written though a copy stays", deviceGo, "		if err := d.store.Drop(); err != nil {\n			return", "		if err := d.store.Drop(); err != nil && d == nil {\n			return"),
		in(wdt, "a stopped watchdog stays kept", storeGo, "		_ = d.store.Drop() // the device", "		// the device"),
		in(fdstore, "a descriptor that was meant for another process is taken", fdGo, "err != nil || pid != e.PID {", "err != nil || pid == 0 {"),
		in(fdstore, "a descriptor of any name is taken", fdGo, "		if n == name && s.inherited < 0 {", "		if n != \"\" && s.inherited < 0 {"),
	}
}
