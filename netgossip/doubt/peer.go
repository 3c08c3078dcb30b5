package doubt

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

type peer struct {
	index int
	began boottime.Instant // when the doubt began
	nets  []silence

	finds   bool             // a probe of this node's own was late
	watches bool             // it was asked to look
	looks   int              // looks so far
	next    boottime.Instant // when the next look is
	wake    boottime.Instant // when something may be due

	sampled bool             // late by a sample, not only in a sweep
	own     bool             // missed, and found by this node before everybody was called on
	missed  bool             // this node misses it, by the measure for questions to watchers
	put     boottime.Instant // when the watchers were asked; zero: not by this node
	more    bool             // others were asked, too
	called  bool
	firm    boottime.Instant // when this node gave its firm word

	asked  roster.Set // who asked this node to look
	voices []voice
}

// silence is that of a peer on one network.
type silence struct {
	probes []boottime.Instant // unanswered, oldest first
}

const mostProbes = 32

// probed notes a probe. A probe that was noted already changes nothing.
func (d *peer) probed(k int, at boottime.Instant) {
	s := &d.nets[k]
	if n := len(s.probes); n > 0 && at <= s.probes[n-1] {
		return
	}
	if len(s.probes) == mostProbes {
		s.probes = slices.Delete(s.probes, 1, 2) // the first one dates the silence
	}
	s.probes = append(s.probes, at)
}

func (d *peer) answered(k int) { d.nets[k].probes = d.nets[k].probes[:0] }

// restart begins the silences again: what this node missed before says nothing.
func (d *peer) restart() {
	for k := range d.nets {
		d.nets[k].probes = d.nets[k].probes[:0]
	}
	d.firm, d.looks, d.next, d.called = 0, 0, 0, false
}

// missedBy is how many probes were not answered in time, and the start of the first; zero: none was missed.
func (s *silence) missedBy(now boottime.Instant, late time.Duration) (n int, since boottime.Instant) {
	for _, at := range s.probes {
		if now.Sub(at) < late {
			break
		}
		n++
	}
	if n > 0 {
		since = s.probes[0]
	}
	return n, since
}

// hear takes what a member says. Each member has one voice.
func (d *peer) hear(from int, kind Kind, made boottime.Instant) {
	i := slices.IndexFunc(d.voices, func(v voice) bool { return v.from == from })
	if i < 0 {
		i = len(d.voices)
		d.voices = append(d.voices, voice{from: from})
	}
	v := &d.voices[i]
	v.made[kind] = max(v.made[kind], made)
}

// count is how many other members said at least so much, no earlier than an instant.
func (d *peer) count(least Kind, from boottime.Instant) (n int) {
	for _, v := range d.voices {
		if at := slices.Max(v.made[least:]); at != 0 && at >= from {
			n++
		}
	}
	return n
}
