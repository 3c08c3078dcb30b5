package history

import "time"

// SampleEvery is the time between two samples.
const SampleEvery = 30 * time.Second

// Sampler keeps the worst values of some seconds. The zero value is ready to use.
type Sampler struct {
	since       time.Duration
	slack       time.Duration
	write, read time.Duration
	any         bool
}

// Note records one measurement, at up, and returns a record when a sample is due. fed reports whether slack is
// meaningful.
func (s *Sampler) Note(up time.Duration, fed bool, slack, write, read time.Duration) (Record, bool) {
	if !s.any {
		s.since, s.slack, s.any = up, 0, true
	}
	if fed && (s.slack == 0 || slack < s.slack) {
		s.slack = slack
	}
	s.write, s.read = max(s.write, write), max(s.read, read)
	if up-s.since < SampleEvery {
		return Record{}, false
	}
	r := Record{Kind: Sample, Armed: fed, Slack: s.slack, Write: s.write, Read: s.read}
	*s = Sampler{}
	return r, true
}
