package probing

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Look has a peer asked now, whatever the schedule has planned. Where peers are sampled the vouch does not move on
// until it has answered, or is set aside, as with a sample; but it says nothing about chance, and is no reason
// for a sweep.
func (s *Schedule) Look(p *Peer, now boottime.Instant) {
	x := &s.samples
	if x.on && p.asked == 0 && p.sampled == 0 && !s.Sweeping(p) && s.vouchable(p) {
		p.looked, p.sampled, p.overdue = true, now, false
		x.open = append(x.open, p)
		x.check = min(x.check, now.Add(lookTimeouts*s.params.EvidenceTimeout))
	}
	if at := max(now, p.sentAt.Add(urgeInterval)); at.Before(p.due) {
		s.plan(p, at)
	}
}

// patience is how many EvidenceTimeouts a sample has to answer.
func (p *Peer) patience() time.Duration {
	if p.looked {
		return lookTimeouts
	}
	return sampleTimeouts
}

// owes notes a peer for TakeLate.
func (s *Schedule) owes(p *Peer, since boottime.Instant, swept bool) {
	if s.reports {
		s.late = append(s.late, Late{p.Index, since, swept})
	}
}
