package probing

import "github.com/fencing-agent/fencing-agent/boottime"

// TakeMisses returns the misses since the last call, oldest first. Report them before Vouched, which no longer covers
// the peers that missed. The slice is valid until the next call of any method.
func (s *Schedule) TakeMisses() []Miss {
	misses := s.misses
	s.misses = s.misses[:0]
	return misses
}

// TakeLate returns the peers that were found late since the last call, with the start of the probe: their answer to a
// sample is overdue, or they did not answer in the first pass of a sweep. The slice is valid until the next call of any
// method.
func (s *Schedule) TakeLate() []Late {
	late := s.late
	s.late = s.late[:0]
	return late
}

// Closed returns how many samples have been answered so far, and how many of these were not answered in time at the
// first probe. If each peer is probed, each answered peer counts as a sample.
func (s *Schedule) Closed() (samples, late uint64) { return s.samples.closed, s.samples.lates }

// TakeDoubt reports whether a sweep has begun since the last call.
func (s *Schedule) TakeDoubt() bool {
	begun := s.sweep.report
	s.sweep.report = false
	return begun
}

// Vouched returns the instant up to which all samples begun have answered; zero: there is no vouch.
func (s *Schedule) Vouched() boottime.Instant { return s.samples.vouched }

// Samples returns how many samples have been taken so far, and how many of them were missed.
func (s *Schedule) Samples() (taken, missed uint64) { return s.samples.total, s.samples.misses }

// Doubt takes extra samples for a reason from outside, for instance another network's doubt.
func (s *Schedule) Doubt(now boottime.Instant) { s.burst(now) }

// SetSaid sets the digest of the node's present statement: a peer that has this statement needs no news.
func (s *Schedule) SetSaid(digest uint64) { s.said = digest }
