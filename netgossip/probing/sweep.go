package probing

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

const (
	// sweepPasses is the number of times that a silent peer is probed in a sweep.
	sweepPasses = 3
	// If at least massLoss peers, and one in massShare, are lost, the cause is more than a few packets or nodes: from
	// that moment a peer that stayed silent does not count.
	massLoss, massShare = 3, 10
	// If very many peers are silent, only some of them are probed again at first. If hardly any of those answers, lost
	// packets are not the reason, and the others count as gone, too.
	probePart, probeShare = 32, 10
)

// round is a list of peers that are visited one after the other.
type round struct {
	queue []*Peer
	gap   time.Duration
	at    boottime.Instant // time of the next visit
}

// start begins a round over the peers that want selects, spread over within.
func (r *round) start(peers []*Peer, now boottime.Instant, within time.Duration, want func(*Peer) bool) {
	r.queue = r.queue[:0]
	for _, p := range peers {
		if want(p) {
			r.queue = append(r.queue, p)
		}
	}
	r.at = now
	if n := len(r.queue); n > 0 {
		r.gap = within / time.Duration(n)
	}
}

// wakes returns when next has to be called.
func (r *round) wakes() boottime.Instant {
	if len(r.queue) == 0 {
		return boottime.Never
	}
	return r.at
}

// next takes a peer from the round if one is due. A delayed round does not catch up all at once.
func (r *round) next(now boottime.Instant) *Peer {
	if len(r.queue) == 0 || now < r.at {
		return nil
	}
	p := r.queue[0]
	r.queue = r.queue[1:]
	r.at = max(r.at, now.Add(-8*r.gap)).Add(r.gap)
	return p
}

// sweep probes all peers that may be there, one after the other in random order. Peers that stay silent are probed
// twice more. One sweep runs at a time; its rate is bounded by Params.RoundTime.
//
// During the first pass neither the samples nor the vouch advance, even when a look is answered. A peer that did not
// answer in that pass is set aside: from the second pass on, the samples and the vouch cover only the others. The first
// pass takes at most three fifths of EvidenceMaxAge: when the old vouch expires, the peers that are there have
// answered. The last pass ends no earlier than the same three fifths after the start: if the node itself stalls for two
// seconds, all peers seem silent, and it finds their answers when it goes on. If more than fewPeers peers are silent,
// only some of them are probed in the later passes, and represent the others (sweepPart).
type sweep struct {
	on     bool
	number int // counts the sweeps
	pass   int
	size   int
	peers  []*Peer // the peers of this pass
	rest   []*Peer // peers that were also silent in the first pass, and share the outcome of those in peers
	round  round
	end    boottime.Instant // end of the wait after the last probe of a pass; zero: the pass goes on
	began  boottime.Instant
	report bool // the sweep has just begun
	// patient is the start of the time that the peers have to answer: the start of the sweep, or the end of its first
	// pass.
	patient boottime.Instant
}

// blind reports whether the samples have to wait.
func (w *sweep) blind() bool { return w.on && w.pass == 1 }

// wakes returns when tickSweep or the round has to be called.
func (w *sweep) wakes() boottime.Instant {
	switch {
	case !w.on:
		return boottime.Never
	case w.end != 0:
		return w.end
	default:
		return w.round.wakes()
	}
}

// Sweeping reports whether the peer is part of the running sweep.
func (s *Schedule) Sweeping(p *Peer) bool { return s.sweep.on && p.swept == s.sweep.number }

// StartSweep starts a sweep over all peers that may be there. It does nothing while a sweep is running.
func (s *Schedule) StartSweep(now boottime.Instant) {
	w := &s.sweep
	if w.on {
		return
	}
	s.shedLooks(now)
	s.abandonSamples()
	s.samples.missed = s.samples.missed[:0]
	w.on, w.report, w.began, w.patient, w.pass, w.end, w.rest = true, true, now, now, 1, 0, nil
	w.number++
	s.rand.Shuffle(len(s.all), func(i, j int) { s.all[i], s.all[j] = s.all[j], s.all[i] })
	w.peers = w.peers[:0]
	for _, p := range s.all {
		if !p.lost && now.Sub(p.proven) > s.params.EvidenceTimeout {
			p.swept = w.number
			w.peers = append(w.peers, p)
			s.plan(p, boottime.Never)
		}
	}
	w.size = len(w.peers)
	w.round.start(w.peers, now, s.params.RoundTime(w.size), func(*Peer) bool { return true })
}

// shedLooks sets aside the peers whose looks have delayed the vouch for so long that it would be too old after the
// first pass: before the longest first pass, EvidenceMaxAge still has room for one sample. Samples still delay the
// vouch. In small groups no peer is set aside: the other networks would take that for a result of the sweep.
func (s *Schedule) shedLooks(now boottime.Instant) {
	room := sampleTimeouts*s.params.EvidenceTimeout + s.params.EvidenceMaxAge*3/5 - s.params.RoundTime(len(s.all))
	s.samples.open = slices.DeleteFunc(s.samples.open, func(p *Peer) bool {
		if p.sampled == p.drawn || now.Sub(p.sampled) < room {
			return false
		}
		s.setAside(p)
		if p.sampled = p.drawn; p.drawn != 0 {
			return false
		}
		p.forgotten()
		return true
	})
	s.advance()
}

func (s *Schedule) stopSweep() {
	s.sweep.on = false
	s.sweep.round.queue = s.sweep.round.queue[:0]
}

// tickSweep ends a pass when all its probes have been sent and have had their time.
func (s *Schedule) tickSweep(now boottime.Instant) {
	w := &s.sweep
	if !w.on || len(w.round.queue) > 0 {
		return
	}
	if w.end == 0 {
		w.end = now.Add(s.params.EvidenceTimeout * 3 / 4)
		if w.pass > 1 {
			w.end = max(w.end, w.patient.Add(s.params.EvidenceMaxAge*3/5*time.Duration(w.pass-1)/(sweepPasses-1)))
		}
		return
	}
	if now < w.end {
		return
	}
	w.end = 0
	silent := w.peers[:0]
	for _, p := range w.peers {
		if p.proven < w.began {
			silent = append(silent, p)
		}
	}
	w.peers = silent
	if w.pass == 1 {
		for _, p := range silent {
			p.aside = p.asked
			s.misses = append(s.misses, Miss{Peer: p.Index, Since: p.asked})
			s.owes(p, p.sentAt, true)
		}
	}
	switch {
	case w.pass == 1 && len(silent) > fewPeers:
		s.sweepPart(now)
	case len(w.rest) > 0 && probeShare*(probePart-len(w.peers)) > probePart:
		s.sweepRest()
	}
	if len(w.peers)+len(w.rest) == 0 || w.pass == sweepPasses {
		s.endSweep(now)
		return
	}
	w.pass++
	w.round.start(w.peers, now, s.params.RoundTime(len(w.peers)), func(*Peer) bool { return true })
}

// sweepPart probes only some of many silent peers, which represent all of them. A peer that has sent us any packet
// since the sweep began is there, even if its answers were lost: it is probed again for itself. The chosen peers get as
// much time to answer as in the first pass: this node may have been frozen in between.
func (s *Schedule) sweepPart(now boottime.Instant) {
	w := &s.sweep
	mute := w.peers[:0]
	for _, p := range w.peers {
		if p.heard < w.began {
			mute = append(mute, p)
			continue
		}
		p.swept = 0
		s.plan(p, now.Add(time.Duration(s.rand.Float64()*float64(s.params.RoundTime(len(w.peers))))))
	}
	w.peers = mute
	if len(mute) > fewPeers {
		w.peers, w.rest, w.patient = mute[:probePart:probePart], mute[probePart:], now
	}
}

// sweepRest repeats the second pass with all silent peers, because some of the chosen peers have answered.
func (s *Schedule) sweepRest() {
	w := &s.sweep
	for _, p := range w.rest {
		if p.proven < w.began {
			w.peers = append(w.peers, p)
		}
	}
	w.rest, w.pass, w.patient = nil, 1, w.began
}

// endSweep reports the peers that the sweep did not find, and returns to the normal schedule.
func (s *Schedule) endSweep(now boottime.Instant) {
	w := &s.sweep
	silent := w.peers
	for _, p := range w.rest {
		if p.proven < w.began { // and it has not answered since
			silent = append(silent, p)
		}
	}
	mass := len(silent) >= massLoss && len(silent)*massShare >= w.size
	w.on = false
	for _, p := range silent {
		if mass {
			p.lost = true
			s.misses = append(s.misses, Miss{Peer: p.Index, Since: p.asked, Void: true})
		}
	}
	s.count(now)
	for _, p := range s.all {
		switch {
		case p.swept != w.number || p.due != boottime.Never:
		case p.lost:
			s.plan(p, now.Add(time.Duration(s.rand.Float64()*float64(s.lostInterval()))))
		case !s.sampling() || !s.vouchable(p) || p.proven < w.began: // a peer that the sweep did not find is probed even if a slow answer arrives
			s.plan(p, now.Add(time.Duration(s.rand.Float64()*float64(max(s.pace.Interval, s.params.EvidenceInterval)))))
		}
	}
}

// Mode is the way in which the peers of a network are probed; zero: not yet probed.
type Mode uint8

// The modes.
const (
	ModeDirect  Mode = iota + 1 // each peer, again and again
	ModeSampled                 // random samples
	ModeSweep                   // all peers, now
)

var modeNames = [...]string{ModeDirect: "direct", ModeSampled: "sampled", ModeSweep: "sweep"}

// String returns the mode's name in status and metrics.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return ""
}

// Mode returns how the peers are probed at present.
func (s *Schedule) Mode() Mode {
	switch {
	case s.sweep.on:
		return ModeSweep
	case s.sampling():
		return ModeSampled
	default:
		return ModeDirect
	}
}
