package probing

import "github.com/fencing-agent/fencing-agent/boottime"

// TakeMisses returns the misses since the last call, oldest first. Report them before Vouched, which no longer covers
// the peers that missed. The slice is good until the next call of any method.
func (s *Schedule) TakeMisses() []Miss {
	misses := s.misses
	s.misses = s.misses[:0]
	return misses
}

// TakeLate returns the peers found late since the last call, with the start of the probe: they owe the answer to a
// sample for longer than that should take, or did not answer the first pass of a sweep. The slice is good until the
// next call of any method.
func (s *Schedule) TakeLate() []Late {
	late := s.late
	s.late = s.late[:0]
	return late
}

// Closed returns how many samples (or, if each peer is probed, peers) have answered so far, and how many of them did
// not answer the first probe in time.
func (s *Schedule) Closed() (samples, late uint64) { return s.samples.closed, s.samples.lates }

// TakeDoubt reports whether a sweep has begun since the last call.
func (s *Schedule) TakeDoubt() bool {
	begun := s.sweep.report
	s.sweep.report = false
	return begun
}

// Vouched returns the instant up to which all samples begun have answered; zero: there is no vouch.
func (s *Schedule) Vouched() boottime.Instant { return s.samples.vouched }

// Samples returns how many samples were taken so far, and how many of them were missed.
func (s *Schedule) Samples() (taken, missed uint64) { return s.samples.total, s.samples.misses }

// Doubt is a reason from outside to take extra samples, for instance another network's doubt.
func (s *Schedule) Doubt(now boottime.Instant) { s.burst(now) }

// SetSaid takes the digest of the node's present statement: for a peer that has it there is no news.
func (s *Schedule) SetSaid(digest uint64) { s.said = digest }
