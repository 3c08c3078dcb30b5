package probing

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

const (
	// sampleTimeouts is the number of EvidenceTimeouts in which a sample has to answer. It is probed four times in that
	// time.
	sampleTimeouts = 3
	// lookTimeouts is the same for a peer that is looked at, which may stall for as long as package doubt tolerates.
	lookTimeouts = 8
	// doubtWindow is the number of EvidenceTimeouts for which a missed sample counts as a reason for a sweep.
	doubtWindow = 10
	// burst is the number of extra samples that are taken at once when one sample gives a reason.
	burst = 8
	// tolerated is the number of missed samples within the window that do not start a sweep yet: they may be deaths of
	// single nodes, which memberlist detects.
	tolerated = 2
	// silenceTimeouts is the number of EvidenceTimeouts without any packet from a network after which a sweep begins.
	silenceTimeouts = 5
	// nudgedSamples is the number of peers that are notified at once of a new statement if samples are taken.
	nudgedSamples = 16
)

// samples is the state of the sampling. order is a random permutation of the peers, which is drawn again after its last
// peer: any two samples in a row are different peers. If a share f of the peers is gone, the probability that none of
// them is among k samples is at most (1-f)^k.
//
// Invariant: every sample begun up to vouched was answered by a peer that sees us, or its peer was set aside, and at
// most tolerated peers were set aside within the window. A peer that has not answered yet keeps vouched from advancing,
// whether it is a sample or is looked at. Peers that are set aside only because of a look are not counted: they were
// not chosen at random.
type samples struct {
	on      bool
	order   []*Peer
	at      int // the next position in order
	due     boottime.Instant
	open    []*Peer          // samples under way
	last    boottime.Instant // start of the latest sample; vouched, if the samples were abandoned since
	vouched boottime.Instant
	check   boottime.Instant // when the open samples must be judged

	starts []boottime.Instant // starts of the samples within the window, oldest first
	missed []missed           // the missed samples among them
	loss   float64            // share of the answered samples that were not answered at the first probe in time
	rested boottime.Instant   // no burst before this moment
	heard  boottime.Instant   // when the latest packet came from any peer, or when the last sweep was
	total  uint64             // samples taken
	misses uint64             // samples missed
	closed uint64             // samples answered
	lates  uint64             // samples that were answered, but not at the first probe in time
}

type missed struct {
	peer *Peer
	at   boottime.Instant
}

// next returns when tickSamples has to be called.
func (x *samples) next() boottime.Instant {
	if !x.on {
		return boottime.Never
	}
	return min(x.due, x.check)
}

// startSampling changes from probing each peer to sampling.
func (s *Schedule) startSampling(now boottime.Instant) {
	x := &s.samples
	x.on, x.heard, x.check = true, now, boottime.Never
	x.due = now.Add(time.Duration(s.rand.Float64() * float64(s.pace.Gap)))
	x.order, x.at = append(x.order[:0], s.all...), len(s.all)
	for _, p := range s.all {
		if s.vouchable(p) && p.asked == 0 {
			s.plan(p, boottime.Never)
		}
	}
}

// stopSampling changes to probing each peer. The vouch so far, or the peer's own answer, lasts for EvidenceMaxAge, and
// by then each peer must have answered. Otherwise, if the demand is near the limit and the sampling begins and ends
// repeatedly, the same peers would be delayed each time.
func (s *Schedule) stopSampling(now boottime.Instant) {
	s.abandonSamples()
	s.samples.on = false
	spread := max(s.pace.Interval, s.params.RoundTime(s.watched))
	for i, p := range s.all {
		if p.due == boottime.Never && !p.lost && !s.Sweeping(p) {
			room := max(0, max(p.proven, s.samples.vouched).Add(s.params.EvidenceMaxAge*3/4).Sub(now))
			s.plan(p, now.Add(min(spread, room)*time.Duration(i)/time.Duration(len(s.all))))
		}
	}
}

// abandonSamples forgets the samples under way.
//
// Invariant: the time after vouched is not vouched for before another sample has been answered.
func (s *Schedule) abandonSamples() {
	for _, p := range s.samples.open {
		p.forgotten()
	}
	s.samples.open, s.samples.last = s.samples.open[:0], s.samples.vouched
	s.samples.check = boottime.Never
}

// tickSamples begins the sample that is due and judges those that are late.
func (s *Schedule) tickSamples(now boottime.Instant) {
	x := &s.samples
	if !x.on {
		return
	}
	if now >= x.check {
		s.judge(now)
	}
	if now >= x.due {
		x.due = now.Add(s.jitter(s.pace.Gap))
		if !s.sweep.blind() {
			s.sample(now)
		}
	}
	x.heard = max(x.heard, s.heard())
	if s.watched > 0 && now.Sub(x.heard) >= silenceTimeouts*s.params.EvidenceTimeout {
		x.heard = now
		s.StartSweep(now)
	}
}

func (s *Schedule) sample(now boottime.Instant) {
	x := &s.samples
	for range x.order {
		if x.at >= len(x.order) {
			s.rand.Shuffle(len(x.order), func(i, j int) { x.order[i], x.order[j] = x.order[j], x.order[i] })
			x.at = 0
		}
		p := x.order[x.at]
		x.at++
		if s.sampleOf(p, now) {
			return
		}
	}
}

// sampleOf makes the peer a sample, unless it already is one, is not covered by vouches, or is being probed by a sweep.
// A slow answer from before the sweep makes a peer of the sweep vouchable again, and after the sweep it would not be
// probed any more.
func (s *Schedule) sampleOf(p *Peer, now boottime.Instant) bool {
	x := &s.samples
	if !x.on || s.sweep.blind() || p.drawn != 0 || s.Sweeping(p) || !s.vouchable(p) {
		return false
	}
	for len(x.starts) > 0 && now.Sub(x.starts[0]) > doubtWindow*s.params.EvidenceTimeout {
		x.starts = x.starts[1:]
	}
	if p.sampled == 0 {
		p.sampled = now
		x.open = append(x.open, p)
	}
	p.drawn, p.overdue, x.last = now, false, now
	x.starts = append(x.starts, now)
	x.check = min(x.check, now.Add(s.params.EvidenceTimeout*3/4))
	x.total++
	s.plan(p, now)
	return true
}

// closeSample ends the sample that a peer is, if the peer has answered since the sample began.
func (s *Schedule) closeSample(p *Peer, now boottime.Instant) {
	x := &s.samples
	if p.sampled == 0 || p.proven < max(p.sampled, p.drawn) {
		return
	}
	if !p.looked() {
		late := 0.0
		if x.closed++; p.overdue {
			late = 1
			x.lates++
		}
		x.loss += (late - x.loss) / 64
	}
	if !p.contact {
		s.miss(p, now)
		return
	}
	s.endSample(p)
}

// endSample removes a peer from the open samples and advances the vouch.
func (s *Schedule) endSample(p *Peer) {
	p.forgotten()
	s.samples.open = slices.DeleteFunc(s.samples.open, func(q *Peer) bool { return q == p })
	s.advance()
}

// advance moves the vouch to the latest sample that began before the oldest open one.
//
// Invariant: a vouch is always dated by a sample. A node that stalled has begun no sample during the stall. So when it
// goes on, the first open sample keeps the vouch at a sample from before the stall, and not just before that open
// sample.
func (s *Schedule) advance() {
	x := &s.samples
	upTo := x.last
	if len(x.open) > 0 {
		oldest := boottime.Never
		for _, q := range x.open {
			oldest = min(oldest, q.sampled)
		}
		before, _ := slices.BinarySearch(x.starts, oldest)
		if before == 0 {
			return // all known starts are later
		}
		upTo = min(upTo, x.starts[before-1])
	}
	x.vouched = max(x.vouched, upTo)
}

// miss sets a sample aside. If there is a reason to doubt the other peers, this no longer advances the vouch.
func (s *Schedule) miss(p *Peer, now boottime.Instant) {
	x := &s.samples
	if s.setAside(p); p.looked() {
		s.endSample(p)
		return
	}
	x.misses++
	if s.listed(p.Index) { // otherwise memberlist already knows of the death
		x.missed = append(x.missed, missed{p, now})
	}
	if s.doubt(now); p.sampled != 0 {
		s.endSample(p)
	}
}

func (s *Schedule) setAside(p *Peer) {
	p.aside = p.sampled
	s.misses = append(s.misses, Miss{Peer: p.Index, Since: p.sampled})
}

func (s *Schedule) judge(now boottime.Instant) {
	x, t := &s.samples, s.params.EvidenceTimeout
	var gone []*Peer
	fresh, missed := false, false
	x.check = boottime.Never
	for _, p := range x.open {
		switch by := p.missedBy(t); {
		case now >= by:
			gone, missed = append(gone, p), missed || !p.looked()
		case p.looked():
			x.check = min(x.check, by)
		case now.Sub(p.drawn) >= t*3/4:
			if fresh = fresh || !p.overdue; !p.overdue {
				s.owes(p, p.drawn, false)
			}
			p.overdue = true
			x.check = min(x.check, by)
		default:
			x.check = min(x.check, p.drawn.Add(t*3/4))
		}
	}
	// If packets are often lost, a late answer shows nothing.
	if fresh && x.loss < 0.05 || missed {
		s.burst(now)
	}
	for _, p := range gone {
		if p.sampled != 0 { // no sweep has taken over
			s.miss(p, now)
		}
	}
	s.doubt(now)
}

// burst takes extra samples, which find out whether more peers are gone.
func (s *Schedule) burst(now boottime.Instant) {
	x := &s.samples
	if !x.on || now < x.rested || s.sweep.blind() {
		return
	}
	x.rested = now.Add(2 * s.params.EvidenceTimeout)
	for range burst {
		s.sample(now)
	}
}

// doubt starts a sweep when more samples are late or missed than can be random losses.
func (s *Schedule) doubt(now boottime.Instant) {
	x := &s.samples
	window := now.Add(-doubtWindow * s.params.EvidenceTimeout)
	recent, distinct := x.missed[:0], 0
	for _, m := range x.missed {
		if m.at > window && m.peer.aside > 0 && s.listed(m.peer.Index) {
			recent = append(recent, m)
		}
	}
	x.missed = recent
	for i, m := range recent {
		again := false
		for _, o := range recent[:i] {
			again = again || o.peer == m.peer
		}
		if !again {
			distinct++
		}
	}
	late := distinct
	for _, p := range x.open {
		if p.overdue && p.aside == 0 {
			late++
		}
	}
	taken := float64(len(x.starts))
	if distinct > tolerated && float64(distinct) >= 0.2*taken || float64(late) > tolerated+4*x.loss*taken {
		s.StartSweep(now)
	}
}

// Tells reports whether a probe should announce news, so that the peer asks for it. If samples are taken, or each of
// many peers is probed, only chosen peers are notified: questions from all of them would double the traffic. The chosen
// peers are notified until they answer.
func (s *Schedule) Tells(p *Peer) bool {
	return p.nudged || p.telling != 0 || !s.sampling() && !s.crowded() || !s.vouchable(p)
}

// nudge brings the next probe of a peer forward and makes it announce news.
func (s *Schedule) nudge(p *Peer, now boottime.Instant) {
	p.nudged = true
	s.Urge(p, now)
}

// NudgeSome notifies the peers that may need to know: all peers if each is probed, a few if samples are taken. If each
// of many peers is probed, it notifies none: all ask anyway before a round of notifications would end. After a cut
// every view changes, and such rounds would be most of the traffic.
func (s *Schedule) NudgeSome(now boottime.Instant) {
	if s.crowded() {
		return
	}
	if !s.sampling() {
		s.NudgeAll(now)
		return
	}
	for range min(nudgedSamples, len(s.all)) {
		if p := s.all[s.rand.IntN(len(s.all))]; !p.lost {
			s.nudge(p, now)
		}
	}
}

// NudgeAll notifies all peers: a few at once, many one after the other. If a few peers were all notified a moment ago,
// they are notified one after the other, too: while a group starts, every node's view changes with each peer that it
// meets. A round that is under way is not restarted: even if a node repeatedly has news, the last peer must hear it,
// too.
func (s *Schedule) NudgeAll(now boottime.Instant) {
	if s.renudge = len(s.nudges.queue) > 0; s.renudge {
		return
	}
	n := len(s.all) - s.lost
	within := s.params.RoundTime(n)
	early := now < s.nudged && within > urgeInterval // urgeInterval bounds the rate for fewer peers
	s.nudged = now.Add(within)
	if n > fewPeers || early {
		s.nudges.start(s.all, now, s.params.RoundTime(len(s.all)), func(p *Peer) bool { return !p.lost && p.Holds != s.said })
		return
	}
	for _, p := range s.all {
		s.nudge(p, now)
	}
}

// LastWords notifies all peers within the given time, a few at once, and replaces the round under way: this node may
// not live long enough for another round.
func (s *Schedule) LastWords(within time.Duration, now boottime.Instant) {
	if len(s.all) <= fewPeers {
		within = 0
	}
	s.renudge = false
	s.nudges.start(s.all, now, min(within, s.params.RoundTime(len(s.all))), func(p *Peer) bool { return !p.lost })
}
