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

	finds   bool             // a probe that this node sent by itself was late
	watches bool             // this node was asked to look
	looks   int              // looks so far
	next    boottime.Instant // when the next look is
	wake    boottime.Instant // when something may be due

	sampled bool             // late as a sample, not only in a sweep
	own     bool             // missed, and found by this node before all members were called on
	missed  bool             // this node misses the peer, by the rule for questions to watchers
	put     boottime.Instant // when this node asked the watchers; zero: it has not
	more    bool             // other members were asked, too
	called  bool
	firm    boottime.Instant // when this node gave its firm word

	asked  roster.Set // members that asked this node to look
	voices []voice
}

// silence is the silence of a peer on one network.
type silence struct {
	probes []boottime.Instant // unanswered, oldest first
}

const mostProbes = 32

// probed records a probe. Recording a probe twice changes nothing.
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

// restart starts the silences again: earlier missed probes do not count.
func (d *peer) restart() {
	for k := range d.nets {
		d.nets[k].probes = d.nets[k].probes[:0]
	}
	d.firm, d.looks, d.next, d.called = 0, 0, 0, false
}

// missedBy returns how many probes were not answered in time, and the start of the first one; zero: none was missed.
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

// hear records a member's word. Each member counts once.
func (d *peer) hear(from int, kind Kind, made boottime.Instant) {
	i := slices.IndexFunc(d.voices, func(v voice) bool { return v.from == from })
	if i < 0 {
		i = len(d.voices)
		d.voices = append(d.voices, voice{from: from})
	}
	v := &d.voices[i]
	v.made[kind] = max(v.made[kind], made)
}

// count returns how many other members sent a word of at least this kind, no earlier than an instant.
func (d *peer) count(least Kind, from boottime.Instant) (n int) {
	for _, v := range d.voices {
		if at := slices.Max(v.made[least:]); at != 0 && at >= from {
			n++
		}
	}
	return n
}
