package main

// memoryMutants are the guards of what the agent remembers of its Node on a disk that may be full.
func memoryMutants() []mutant {
	const memoryGo = "cmd/fencing-agent/agent/nodememory.go"
	of := func(what, from, to string) mutant {
		m := one("memory", what, memoryGo, from, to)
		m.in = []string{"./cmd/fencing-agent/agent"}
		return m
	}
	terms := one("memory", "terms are gone by that are not on file", "cmd/fencing-agent/agent/terms.go",
		"	if !w.want.equal(&w.onFile) || statefile.Sync(w.file.path) != nil {", "	if statefile.Sync(w.file.path) != nil {")
	terms.in = []string{"./cmd/fencing-agent/agent"}
	return []mutant{
		terms,
		of("what was superseded is kept on a full disk", "if statefile.Remove(m.path) == nil {", "if m == nil && statefile.Remove(m.path) == nil {"),
		of("what a full disk did not take is never stored", "			again = time.After(memoryRetry)\n", ""),
		of("what was seen before a stop is forgotten", "				m.save(s) // what was seen before the stop\n", "				s.Known = false\n"),
	}
}
