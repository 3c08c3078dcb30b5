package main

// historyMutants are the guards of what is kept over a reset, and of who may see the page.
func historyMutants() []mutant {
	const (
		codecGo    = "history/codec.go"
		shelfGo    = "history/shelf.go"
		endingGo   = "history/ending.go"
		recorderGo = "cmd/fencing-agent/recorder/recorder.go"
		fileGo     = "cmd/fencing-agent/recorder/file.go"
		pageGo     = "api/page/page.go"
		agentGo    = "cmd/fencing-agent/agent/history.go"
		history    = "./history"
		recorder   = "./cmd/fencing-agent/recorder"
		page       = "./api/page"
	)
	of := func(in, what, file, from, to string) mutant {
		m := one("history", what, file, from, to)
		m.in = []string{in}
		return m
	}
	return []mutant{
		of(history, "a torn record is read", codecGo, "binary.LittleEndian.Uint32(b) != checksum(b[4:]) || b[4] == 0", "b[4] == 0"),
		of(history, "a file of a later version is read", codecGo, "v != Version {", "v == 0 {"),
		of(history, "a header is believed that is damaged", codecGo, "binary.LittleEndian.Uint32(b[16:]) != checksum(b[:16])", "false"),
		of(history, "a field may be longer than the slot", codecGo, "		if len(rest)-fieldHead < size {\n			return Record{}, false\n		}\n", ""),
		of(history, "last words count though the node fed again", endingGo, "		e.End, *said = EndSudden, nil\n	case r.Action", "	case r.Action"),
		of(history, "a condemned boot is saved by a decision", endingGo, "	case e.End == EndCondemned, e.End == EndStruck:\n	case r.Action == \"feed\"", "	case r.Action == \"feed\""),
		of(history, "the present boot is told as the one before", endingGo, "return b.Nonce == present })", "return false })"),
		of(history, "a sample takes the slot of an event", shelfGo, "case event || len(s.events) > s.share:", "case true:"),
		of(history, "an event takes that of another while there are samples", shelfGo, "event && len(s.events) >= s.share:", "event && len(s.events) > 0:"),
		of(history, "events leave no room for samples", shelfGo, "share: slots - slots/4}", "share: slots}"),
		of(history, "samples are not thinned", shelfGo, "		if age < closeFor {", "		if age < 1<<62 {"),
		of(history, "the better of two samples stays", shelfGo, "if lastOfBoot || b.worse(a) {", "if lastOfBoot || a.worse(b) {"),
		of(recorder, "a note waits for the disk", recorderGo, "	case r.queue <- rec:\n	default:\n		r.dropped.Inc()\n	}", "	case r.queue <- rec:\n	}"),
		of(recorder, "last words wait for the console", recorderGo, "	case r.lines <- rec.Line():\n	default: // the console is slower than the node dies\n	}", "	case r.lines <- rec.Line():\n	}"),
		of(recorder, "a disk that hangs keeps the agent from stopping", recorderGo, "	case <-t.C: // a disk", "	case <-make(chan time.Time): // a disk"),
		of(recorder, "two agents write one file", fileGo, "unix.LOCK_EX|unix.LOCK_NB", "unix.LOCK_SH|unix.LOCK_NB"),
		of(recorder, "a foreign file is overwritten", fileGo, "os.Rename(path, path+\".unreadable\")", "os.Remove(path)"),
		of(page, "another machine is shown the page", pageGo, "loopback(r.RemoteAddr) && local", "local"),
		of(page, "a foreign name that leads to the loopback is shown the page", pageGo, "loopback(r.RemoteAddr) && local(r.Host)", "loopback(r.RemoteAddr)"),
		of("./cmd/fencing-agent/agent", "an agent that may be saved says last words again and again", agentGo, "if starving && !h.starving {", "if starving {"),
	}
}
