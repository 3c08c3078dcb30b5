package main

// probingMutants are the guards of the scheduler of probes that only a whole group shows: the tests of
// netgossip and of the packages below it pass without them.
func probingMutants() []mutant {
	const (
		probingGo = "netgossip/probing/schedule.go"
		sampleGo  = "netgossip/probing/sample.go"
		sweepGo   = "netgossip/probing/sweep.go"
	)
	list := []mutant{
		one("probing", "a peer that no sample covers is asked again the moment it has answered", probingGo,
			"		case s.sampling():\n			interval = s.params.EvidenceInterval\n", ""),
		one("probing", "a peer that no vouch covers is left to the samples once it has answered", probingGo,
			"case s.sampling() && s.vouchable(p) && p.sampled == 0:", "case s.sampling() && p.sampled == 0:"),
		one("probing", "peers that no vouch covers are left to the samples when these begin", sampleGo,
			"if s.vouchable(p) && p.asked == 0 {", "if p.asked == 0 {"),
		one("probing", "a peer that a sweep did not find is never asked again", sweepGo,
			"		case !s.sampling() || !s.vouchable(p) || p.proven < w.began: // whom it did not find is asked, by whatever a slow answer says\n			s.plan(p, now.Add(time.Duration(s.rand.Float64()*float64(max(s.pace.Interval, s.params.EvidenceInterval)))))\n", ""),
	}
	for i := range list {
		list[i].in = []string{"./integration/sim"}
	}
	again := one("probing", "samples that come and go put the same peers off each time", sampleGo,
		"min(spread, room)*time.Duration(i)", "max(spread, min(spread, room))*time.Duration(i)")
	late := one("probing", "an answer from before a miss undoes it", probingGo, "if contact && o.At >= p.aside {", "if contact {")
	inHand := one("probing", "a sample is taken of whom a sweep has in hand", sampleGo, "p.drawn != 0 || s.Sweeping(p) || ", "p.drawn != 0 || ")
	found := one("probing", "whom a sweep did not find is left to the samples", sweepGo, "!s.vouchable(p) || p.proven < w.began:", "!s.vouchable(p):")
	chosen := one("probing", "to ask each is chosen where there is no choice", probingGo, "old.Interval > 0 && !s.bound)", "old.Interval > 0)")
	start := one("probing", "a start chooses the pace", probingGo, "d.Each || d.Others == 0 || !s.met", "d.Each || d.Others == 0")
	edges := []mutant{again, late, inHand, found, chosen, start}
	for i := range edges {
		edges[i].in = []string{"./netgossip/probing"}
	}
	return append(list, edges...)
}
