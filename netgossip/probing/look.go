package probing

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Look requests a probe of a peer now, regardless of the schedule's plan. If peers are sampled, the vouch does not
// advance until the peer has answered or has been set aside. A peer that is looked at is set aside later than a sample:
// after lookTimeouts, or when a sweep begins. By then it has been probed seven times, in case packets are lost. A look
// is not random, so it is not a reason for a sweep.
//
// Invariant: looks do not take peers out of the samples. When the random order reaches a peer that is looked at, the
// peer becomes a sample. So looks do not change the conditions for a sweep.
func (s *Schedule) Look(p *Peer, now boottime.Instant) {
	x := &s.samples
	if x.on && p.asked == 0 && p.sampled == 0 && !s.Sweeping(p) && s.vouchable(p) {
		p.sampled, p.drawn, p.overdue = now, 0, false
		x.open = append(x.open, p)
		x.check = min(x.check, now.Add(lookTimeouts*s.params.EvidenceTimeout))
	}
	if at := max(now, p.sentAt.Add(urgeInterval)); at.Before(p.due) {
		s.plan(p, at)
	}
}

// looked reports whether the vouch waits for the peer only because of a look.
func (p *Peer) looked() bool { return p.sampled != 0 && p.drawn == 0 }

// forgotten ends the sample or the look.
func (p *Peer) forgotten() { p.sampled, p.drawn, p.overdue = 0, 0, false }

// missedBy returns when the peer counts as having missed its probe, as a sample or because of a look. A peer that
// became a sample late gets no extra time: it was probed more often than a sample.
func (p *Peer) missedBy(timeout time.Duration) boottime.Instant {
	by := p.sampled.Add(lookTimeouts * timeout)
	if !p.looked() {
		by = min(by, p.drawn.Add(sampleTimeouts*timeout))
	}
	return by
}

// repeated records that a peer is probed. If each peer is probed, a peer that is probed again was late.
func (s *Schedule) repeated(p *Peer, now boottime.Instant) {
	if !s.sampling() && !p.lost && !s.Sweeping(p) && p.owed != p.asked && now.Sub(p.asked) >= s.params.EvidenceTimeout*3/4 {
		p.owed = p.asked
		s.owes(p, p.asked, false)
	}
}

// closeDirect records that a peer answers. If each peer is probed, the answer counts for Closed like a sample, provided
// that the peer was there before.
func (s *Schedule) closeDirect(p *Peer) {
	if !s.sampling() && p.asked != 0 && p.proven > p.dead && !p.lost {
		s.samples.closed++
		if p.owed == p.asked {
			s.samples.lates++
		}
	}
}

// owes records a peer for TakeLate.
func (s *Schedule) owes(p *Peer, since boottime.Instant, swept bool) {
	if s.reports {
		s.late = append(s.late, Late{p.Index, since, swept})
	}
}
