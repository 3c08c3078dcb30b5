package swim

// report passes the results of the schedule to the Sink. It reports a miss before the vouch that no longer covers the
// missed peer.
func (e *evidence) report() {
	s := e.schedule
	for _, m := range s.TakeMisses() {
		e.gate.pass(func() { e.cfg.Sink.Missed(e.cfg.Network, m.Peer, m.Since, m.Void) })
	}
	if s.Vouched().Sub(e.vouched) >= e.cfg.Params.EvidenceMaxAge/16 {
		e.vouched = s.Vouched()
		e.gate.pass(func() { e.cfg.Sink.Vouched(e.cfg.Network, e.vouched) })
	}
	if s.TakeDoubt() {
		e.count.sweeps.add(1)
		e.gate.pass(func() { e.cfg.Sink.Doubted(e.cfg.Network) })
	}
	taken, missed := s.Samples()
	if n := taken - e.samples; n > 0 {
		e.samples = taken
		e.count.samples.add(int(n))
	}
	if n := missed - e.misses; n > 0 {
		e.misses = missed
		e.count.misses.add(int(n))
	}
	e.reportDoubts()
	if shares := s.Shares(); shares != e.shares.Load() {
		e.shares.Store(shares)
	}
	if mode := s.Mode(); mode != e.mode {
		e.mode = mode
		e.count.setMode(mode)
	}
}

// reportDoubts passes the results that the node's doubts are based on.
func (e *evidence) reportDoubts() {
	d := e.cfg.Doubts
	if d == nil {
		return
	}
	if closed, lates := e.schedule.Closed(); closed != e.closed {
		d.closed(e, closed-e.closed, lates-e.lates)
		e.closed, e.lates = closed, lates
	}
	for _, m := range e.schedule.TakeLate() {
		d.late(e, m)
	}
}
