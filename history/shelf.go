package history

import (
	"slices"
	"time"
)

// If there is no more room, samples are thinned by their age.
const (
	closeFor   = time.Hour      // younger samples are not thinned
	minuteFor  = 24 * time.Hour // up to this age: one per minute
	minute     = time.Minute
	tenMinutes = 10 * time.Minute // beyond: one per ten minutes
)

// Shelf decides in which slot a record is stored. Events are kept longer than samples.
//
// Invariant: the share of events (records of any kind but samples) is three quarters of the slots. A sample takes the
// slot of an event only while events have more than their share. An event takes the slot of another event only when
// events have all of their share, then even if a slot is free: the last quarter is for samples. Otherwise a free slot
// is used first. If there is none, samples older than an hour are thinned to one per minute, and those older than a day
// to one per ten minutes; of two samples that are too close, the worse one stays. The last sample of a boot stays until
// it is the oldest of all.
//
// Ages are by the wall clock. If it jumps, samples are thinned wrongly, but events are not affected.
type Shelf struct {
	share           int // number of slots that events may use
	free            []int
	events, samples []place // by number
}

// place is a slot with a record.
type place struct {
	slot      int
	boot      uint64
	wall      int64 // nanoseconds
	slack, io time.Duration
}

// NewShelf returns the shelf of a file with this many slots and the contents f.
func NewShelf(slots int, f *File) *Shelf {
	s := &Shelf{share: slots - slots/4}
	taken := make([]bool, slots)
	for i := range f.Records {
		at := f.Places[i]
		taken[at] = true
		s.add(&f.Records[i], at)
	}
	for at := slots - 1; at >= 0; at-- {
		if !taken[at] {
			s.free = append(s.free, at)
		}
	}
	return s
}

func (s *Shelf) add(r *Record, at int) {
	p := place{slot: at, boot: r.Boot, wall: r.Wall.UnixNano(), slack: r.Slack, io: max(r.Write, r.Read)}
	if r.Kind == Sample {
		s.samples = append(s.samples, p)
		return
	}
	s.events = append(s.events, p)
}

// Place returns the slot for r, which must be later than all other records. ok is false for a sample for which there is
// no room.
func (s *Shelf) Place(r *Record) (at int, ok bool) {
	switch event := r.Kind != Sample; {
	case event && len(s.events) >= s.share:
		at, s.events = s.events[0].slot, s.events[1:]
	case len(s.free) > 0:
		last := len(s.free) - 1
		at, s.free = s.free[last], s.free[:last]
	case len(s.samples) > 0:
		i := s.worthless(r.Wall.UnixNano())
		at = s.samples[i].slot
		s.samples = slices.Delete(s.samples, i, i+1)
	case event || len(s.events) > s.share:
		at, s.events = s.events[0].slot, s.events[1:]
	default:
		return 0, false
	}
	s.add(r, at)
	return at, true
}

// worthless returns the sample whose loss matters least: one of the first two that are too close, or the oldest.
func (s *Shelf) worthless(now int64) int {
	for i := range len(s.samples) - 1 {
		a, b := &s.samples[i], &s.samples[i+1]
		age := time.Duration(now - b.wall)
		if age < closeFor {
			break
		}
		apart := tenMinutes
		if age < minuteFor {
			apart = minute
		}
		if a.boot != b.boot || time.Duration(b.wall-a.wall) >= apart {
			continue
		}
		lastOfBoot := i+2 == len(s.samples) || s.samples[i+2].boot != b.boot
		if lastOfBoot || b.worse(a) {
			return i
		}
		return i + 1
	}
	return 0
}

// worse reports whether p is the worse sample: its LUN took more than twice as long, otherwise it has less slack.
func (p *place) worse(than *place) bool {
	switch {
	case p.io > 2*than.io:
		return true
	case than.io > 2*p.io:
		return false
	}
	return p.slack < than.slack
}
