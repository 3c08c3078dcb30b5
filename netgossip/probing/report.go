package probing

import "github.com/fencing-agent/fencing-agent/boottime"

// TakeMisses returns the misses since the last call, oldest first. They are to be reported before
// Vouched, which is not about the missed any more. The slice is good until the next call of any method.
func (s *Schedule) TakeMisses() []Miss {
	misses := s.misses
	s.misses = s.misses[:0]
	return misses
}

// TakeLate returns the peers, since the last call, that owe the answer to a sample for longer than that should take, or did
// not answer the first pass of a sweep, with the start of the probe. The slice is good until the next call of any method.
func (s *Schedule) TakeLate() []Late {
	late := s.late
	s.late = s.late[:0]
	return late
}

// Closed returns how many samples were answered so far, or, where each peer is probed, peers, and of how many of them the first probe was not answered in time.
func (s *Schedule) Closed() (samples, late uint64) { return s.samples.closed, s.samples.lates }

// TakeDoubt reports whether a sweep has begun since the last call.
func (s *Schedule) TakeDoubt() bool {
	begun := s.sweep.report
	s.sweep.report = false
	return begun
}

// Vouched returns up to when all samples that were begun have been answered; zero: there is no vouch.
func (s *Schedule) Vouched() boottime.Instant { return s.samples.vouched }

// Samples returns how many samples were taken so far, and how many of them were missed.
func (s *Schedule) Samples() (taken, missed uint64) { return s.samples.total, s.samples.misses }

// Doubt is a reason from outside to take extra samples, for instance another network's doubt.
func (s *Schedule) Doubt(now boottime.Instant) { s.burst(now) }

// SetSaid takes the digest of the statement that the node makes now: a peer that holds it has no news to hear.
func (s *Schedule) SetSaid(digest uint64) { s.said = digest }
