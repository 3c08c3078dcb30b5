package main

// survivalMutants are as safe as the arbiter itself, and let a half die that could live. The
// test of survival at the end of every random schedule has to notice.
func survivalMutants() []mutant {
	return []mutant{
		one("survival", "a ballot that failed is never repeated", arbiterGo, "	a.retryAt = now.Add(a.timing.Stagger + time.Duration(a.rng.Int64N(int64(a.timing.Arbitrate/8)+1)))\n", "	a.retryAt = boottime.Never\n"),
		one("survival", "a value whose proposer is gone is left alone", arbiterGo, "	if l.unknown || !a.table.holdersDone(", "	if l.unknown || l.pending || !a.table.holdersDone("),
		one("survival", "a grant that nobody can live by is kept", arbiterGo, "	case a.broken(a.lease.grant):", "	case a.slot < -1:"),
		one("survival", "a grant that a holder gave up by its word alone is kept", arbiterGo, "		return st != nil && h.left(st.Token)\n", "		return st != nil && h.left(h.Token)\n"),
		one("survival", "a device that hangs is waited for while another may do", lanesGo, "		possible -= slow\n", "		possible -= 0\n"),
		one("survival", "a device that failed is given up", lanesGo, "		case a.inFlight && a.cur.kind == OpRead && !a.cur.done", "		case a.inFlight && l.err == nil && a.cur.kind == OpRead && !a.cur.done"),
		one("survival", "the half of a node that hangs waits for it", leaseGo, "		if e.after != 0 && a.table.start.Sub(e.after) <= max(a.timing.fresh(), 2*a.pace.round()) && e.record().Statement.View.Intersects(view) {", "		if e.after != 0 && e.last.view.Len() > 0 {"),
	}
}
