package diskquorum

import "time"

// explorerStats counts the situations that random schedules reached.
type explorerStats struct {
	Schedules                              int
	IOs, Decided, Adopted, Won, Lost, Late int
	// Schedules with three devices, steps in them in which a node fed under a grant, and
	// those of them in which one of its paths was broken.
	Triples, TripleWon, Outvoted int
	Relayed                      int // steps in which a node fed by the writes of another holder
	Bridged                      int // steps in which it fed with a partner that had given the grant up for a majority (L14)

	Lied, Older, Known, Unpromised int // schedules with faulty storage; how often a node was shown an older device, and how often it could know; schedules that ended without promises

	Spared    [fates]int // schedules in which the premise of the test of survival was true, by the fate of the other half
	SparedWon [fates]int // those of them in which the spared half won
	Damaged   int        // schedules in which it was not true because a slot was damaged
	Kept      int        // those of them in which a holder that read a damaged slot kept the grant
	Endless   int        // schedules in which the time began again until the bound
	Seed      uint64     // seed of one of them
	Slowest   time.Duration
	Ballots   [6]int // number of schedules, by the number of ballots begun: 0, 1, ... 5 or more
}

func (s *explorerStats) add(e *explorer, seed uint64) {
	o := &e.rig.oracle
	s.Schedules++
	s.IOs += e.ios
	s.Decided += len(o.decided)
	s.Adopted += o.adoptions
	s.Won += o.won
	s.Lost += o.lost
	s.Late += e.late
	s.Relayed += o.relayed
	s.Bridged += o.bridged
	if len(e.rig.images) > 1 {
		s.Triples++
		s.TripleWon += o.won
		s.Outvoted += o.outvoted
	}
	if e.lies != nil {
		s.Lied++
		s.Older, s.Known = s.Older+o.back.events, s.Known+o.back.known
		if o.back.unpromised != "" {
			s.Unpromised++
		}
	}
	if e.end.damaged {
		s.Damaged++
	}
	if e.end.kept {
		s.Kept++
	}
	if e.end.endless {
		s.Endless, s.Seed = s.Endless+1, seed
	}
	if e.end.held {
		s.Spared[e.end.fate]++
		s.Slowest = max(s.Slowest, e.end.took)
		s.Ballots[min(e.end.ballots, len(s.Ballots)-1)]++
		if e.end.won {
			s.SparedWon[e.end.fate]++
		}
	}
}

// sum adds the counts of another worker.
func (s *explorerStats) sum(o *explorerStats) {
	s.Schedules += o.Schedules
	s.IOs += o.IOs
	s.Decided += o.Decided
	s.Adopted += o.Adopted
	s.Won += o.Won
	s.Lost += o.Lost
	s.Late += o.Late
	s.Relayed += o.Relayed
	s.Bridged += o.Bridged
	s.Triples += o.Triples
	s.TripleWon += o.TripleWon
	s.Outvoted += o.Outvoted
	s.Lied += o.Lied
	s.Older += o.Older
	s.Known += o.Known
	s.Unpromised += o.Unpromised
	for f := range s.Spared {
		s.Spared[f] += o.Spared[f]
		s.SparedWon[f] += o.SparedWon[f]
	}
	for b := range s.Ballots {
		s.Ballots[b] += o.Ballots[b]
	}
	s.Damaged += o.Damaged
	s.Kept += o.Kept
	s.Endless, s.Seed = s.Endless+o.Endless, max(s.Seed, o.Seed)
	s.Slowest = max(s.Slowest, o.Slowest)
}

// reached reports whether the schedules reached the situations that they should test.
func (s *explorerStats) reached() bool {
	for f := range s.Spared {
		if s.Spared[f] == 0 || s.SparedWon[f] == 0 {
			return false
		}
	}
	return s.Triples != 0 && s.TripleWon != 0 && s.Outvoted != 0 && s.Relayed != 0 && s.Bridged != 0 && s.Decided != 0 &&
		s.Adopted != 0 && s.Won != 0 && s.Lost != 0 && s.Late != 0 && s.Ballots[len(s.Ballots)-1] != 0
}
