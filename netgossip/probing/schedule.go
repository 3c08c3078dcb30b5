package probing

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

const (
	// maxOutstanding bounds the unanswered probes that are remembered per peer. They must cover EvidenceMaxAge:
	// otherwise a network with a round trip of more than a few EvidenceTimeouts would give no evidence at all.
	maxOutstanding = 32
	// urgeInterval is the minimum time between two probes of a peer that are sent outside the regular schedule. Nudges
	// in between are merged into one.
	urgeInterval = 50 * time.Millisecond
	// retryRate bounds the repeated probes per second of all peers that owe an answer.
	retryRate = 200
	// Up to fewPeers peers are notified of news, or asked because of it, at once; more peers one after the other.
	fewPeers = 100
	// lostRate bounds the probes per second to all lost peers together.
	lostRate = 20
	// recoverFanout is the number of lost peers that are probed at once when one lost peer is back. So all find each
	// other within seconds after a partition, while a single node that flaps costs little.
	recoverFanout = 4
)

// Schedule decides when each peer is probed on one network. It does not know addresses and does not send. One goroutine
// may use it at a time.
//
// If there are few peers, or each of them matters, each is probed every Pace.Interval, and again while it does not
// answer. Otherwise random samples are probed (sample.go), and all peers at once if the samples give a reason
// (sweep.go). In both cases lost peers are probed from time to time, at a bounded rate.
type Schedule struct {
	params  netgossip.Params
	rand    *rand.Rand
	network int
	listed  func(peer int) bool     // memberlist calls the peer alive
	heard   func() boottime.Instant // when the latest packet came from any peer
	peers   []*Peer                 // by due time, a heap
	all     []*Peer                 // in random order
	byIndex map[int]*Peer

	demand  netgossip.Demand
	pace    netgossip.Pace
	met     bool             // every peer has answered, or is lost
	bound   bool             // the demand, or the start, allowed only one pace
	ripe    boottime.Instant // by then every peer has answered, or is lost and reported
	watched int              // number of peers that a vouch would cover, as of the latest count
	lost    int              // likewise
	open    int              // likewise: peers that owe an answer
	counted boottime.Instant // time of the next count

	samples samples
	sweep   sweep
	nudges  round
	asks    round            // peers whose statements are wanted
	urged   boottime.Instant // until this moment, questions because of news about members have used up their rate
	nudged  boottime.Instant // before this, peers are not all notified at once
	renudge bool             // another round of notifications is wanted
	said    uint64           // digest of this node's statement
	misses  []Miss           // to be reported
	late    []Late           // likewise
	reports bool             // late has to be filled
}

// Config holds the settings of a Schedule.
type Config struct {
	Params  netgossip.Params
	Network int   // the network's number, by which networks that share the probing take turns
	Peers   []int // by the owner's indices
	// Listed reports whether memberlist calls a peer alive.
	Listed func(peer int) bool
	// Heard returns when the latest packet came from any peer; nil: silence is not evaluated.
	Heard func() boottime.Instant
	// Late is true if TakeLate will be called.
	Late bool
	// Rand is the only source of randomness: with the same seed, the same calls give the same probes.
	Rand *rand.Rand
}

// New returns a Schedule whose first probes are spread evenly, with a random phase.
func New(cfg Config, now boottime.Instant) *Schedule {
	s := &Schedule{
		params:  cfg.Params,
		rand:    cfg.Rand,
		network: cfg.Network,
		listed:  cfg.Listed,
		heard:   cfg.Heard,
		reports: cfg.Late,
		byIndex: make(map[int]*Peer, len(cfg.Peers)),
	}
	if s.listed == nil {
		s.listed = func(int) bool { return true }
	}
	if s.heard == nil {
		s.heard = func() boottime.Instant { return boottime.Never }
	}
	spread := max(s.params.EvidenceInterval, s.params.RoundTime(len(cfg.Peers)))
	phase := s.rand.Float64()
	for i, index := range cfg.Peers {
		due := now.Add(time.Duration((float64(i) + phase) / float64(len(cfg.Peers)) * float64(spread)))
		p := &Peer{Index: index, due: due, position: i}
		s.peers, s.all = append(s.peers, p), append(s.all, p)
		s.byIndex[index] = p
	}
	s.ripe = now.Add(spread + s.params.EvidenceMaxAge + 2*s.params.EvidenceInterval)
	heap.Init((*byDue)(s))
	s.rand.Shuffle(len(s.all), func(i, j int) { s.all[i], s.all[j] = s.all[j], s.all[i] })
	s.count(now)
	return s
}

// Peer returns the peer with an index; nil: there is none.
func (s *Schedule) Peer(index int) *Peer { return s.byIndex[index] }

// believe adopts what an earlier instance knew about a peer. Until memberlist lists the peer, too, it is probed like
// any other peer, but not at once.
func (s *Schedule) believe(p *Peer, known *netgossip.Statement, digest uint64, now boottime.Instant) {
	p.Known, p.Digest, p.proven, p.contact = known, digest, now, true
	s.plan(p, p.due.Add(s.params.EvidenceMaxAge/4))
}

// Recall adopts what an earlier instance knew about each peer; a nil statement: nothing. If every peer is known,
// samples may be taken without probing each peer first.
func (s *Schedule) Recall(known func(peer int) (statement *netgossip.Statement, digest uint64), now boottime.Instant) {
	believed := 0
	for _, p := range s.all {
		if st, digest := known(p.Index); st != nil {
			s.believe(p, st, digest, now)
			believed++
		}
	}
	if believed == len(s.all) {
		s.ripe = now
	}
}

// vouchable reports whether a vouch covers the peer. netgossip.Merger has the same rule, and is told of each peer that
// is no longer vouchable. So it never vouches for a peer that cannot become a sample here.
func (s *Schedule) vouchable(p *Peer) bool {
	return p.contact && p.proven > p.dead && p.aside == 0 && !p.lost && s.listed(p.Index)
}

// sampling reports whether peers are sampled, instead of each being probed.
func (s *Schedule) sampling() bool { return s.pace.Interval == 0 }

// crowded reports whether each of so many peers is probed that news only travels with the answers to the peers' own
// probes, every Pace.Interval.
func (s *Schedule) crowded() bool { return !s.sampling() && s.watched > fewPeers }

// count renews the numbers that bound the rates, and then the pace.
func (s *Schedule) count(now boottime.Instant) {
	s.watched, s.lost, s.open = 0, 0, 0
	unknown := 0
	for _, p := range s.all {
		if p.proven == 0 && !p.lost {
			unknown++
		}
		if s.vouchable(p) {
			s.watched++
		}
		if p.lost {
			s.lost++
		}
		if p.asked != 0 && !p.lost {
			s.open++
		}
	}
	s.counted = now.Add(s.params.EvidenceMaxAge / 8)
	old := s.pace
	d := s.demand
	// The merger may remember answers to an earlier instance. A vouch must not cover those peers before this instance
	// has probed them.
	d.Each = d.Each || unknown > 0 && now < s.ripe
	// A change of the pace must save enough. But if each peer is probed only because nothing else was possible yet, or
	// because the group was still being met, then even a small saving is enough to start sampling. Otherwise all nodes
	// would go on probing each peer, and after news all would ask one peer at once and then in step.
	s.pace = d.Pace(s.params, s.watched, old.Interval > 0 && !s.bound)
	s.met = s.met || s.watched+s.lost == len(s.all)
	s.bound = d.Each || d.Others == 0 || !s.met
	switch {
	case s.sampling() && old.Gap == 0:
		s.startSampling(now)
	case !s.sampling() && old.Interval == 0:
		s.stopSampling(now)
	}
}

// SetDemand sets how closely the peers have to be watched.
func (s *Schedule) SetDemand(d netgossip.Demand, now boottime.Instant) {
	if s.demand != d {
		s.demand = d
		s.count(now)
	}
}

// Tick does everything that is due at now except probes.
func (s *Schedule) Tick(now boottime.Instant) {
	if now >= s.counted {
		s.count(now)
	}
	s.tickSamples(now)
	s.tickSweep(now)
	for p := s.nudges.next(now); p != nil; p = s.nudges.next(now) {
		s.nudge(p, now)
	}
	for p := s.asks.next(now); p != nil; p = s.asks.next(now) {
		s.AskStatement(p, now)
	}
	if s.renudge && len(s.nudges.queue) == 0 {
		s.NudgeAll(now)
	}
}

// Next returns a peer to probe now, and whether to probe it briefly. If no probe is due, it returns the time until the
// next one, unless a packet arrives before.
func (s *Schedule) Next(now boottime.Instant) (p *Peer, brief bool, wait time.Duration) {
	if p := s.sweep.round.next(now); p != nil {
		return p, !p.curious, 0
	}
	at := min(s.counted, s.samples.next(), s.sweep.wakes(), s.nudges.wakes(), s.asks.wakes())
	if len(s.peers) > 0 {
		if p := s.peers[0]; p.due <= now {
			return p, s.brief(p, now), 0
		}
		at = min(at, s.peers[0].due)
	}
	return nil, false, max(0, at.Sub(now))
}

// brief reports whether a probe need not ask for the statement. After a cut every view changes, and the statements of
// half of a large group are most of the traffic. So the networks on which a peer must vanish to be lost take turns in
// asking for its statement. The turn changes with every answer, so no statement depends on one network; a statement is
// late by at most 2 Pace.Interval. If the networks share the probing, every second probe of a peer asks for the
// statement, no matter on which network.
func (s *Schedule) brief(p *Peer, now boottime.Instant) bool {
	if !s.crowded() || s.demand.Each || p.nudged || p.telling != 0 || p.curious || !s.vouchable(p) {
		return false
	}
	if age := now.Sub(p.told); s.Shares() && age < 3*s.pace.Interval {
		return age < s.pace.Interval*3/2
	}
	return (p.Index+p.turn+s.network)%max(1, int(s.demand.Share)) != 0
}

// Shares reports whether the networks share the probing of each peer: there are many peers, and one network suffices to
// reach them.
func (s *Schedule) Shares() bool { return s.crowded() && s.demand.Any && !s.demand.Each }

// ProvenElsewhere records that a peer answered a probe that was sent at an instant on another network: the peer need
// not be probed here for an interval. On the network that probed it, the next probe comes an eighth later than that, so
// the networks take turns, and if one fails, the other takes over. The answer is not evidence on this network.
func (s *Schedule) ProvenElsewhere(p *Peer, at boottime.Instant, told bool) {
	if p.elsewhere = max(p.elsewhere, at); told {
		p.told = max(p.told, at)
	}
	if !s.Shares() || p.asked != 0 || p.nudged || p.curious || !s.vouchable(p) || s.Sweeping(p) || p.due == boottime.Never {
		return
	}
	if due := p.elsewhere.Add(s.jitter(s.pace.Interval)); p.due < due {
		s.plan(p, due)
	}
}

// Probed records that a probe is being sent now, and plans the next one as if no answer came.
func (s *Schedule) Probed(p *Peer, id uint64, now boottime.Instant) {
	keep := p.sent[:0]
	for _, o := range p.sent {
		if now.Sub(o.At) < s.params.EvidenceMaxAge {
			keep = append(keep, o)
		}
	}
	if len(keep) == maxOutstanding {
		keep = append(keep[:0], keep[1:]...)
	}
	p.sent = append(keep, Probe{id, now, p.Known})
	if p.nudged {
		p.telling = now
	}
	p.sentAt, p.nudged, p.curious = now, false, false
	if p.asked == 0 {
		p.asked = now
	}
	s.repeated(p, now)
	if !p.lost && now.Sub(p.asked) > s.params.EvidenceMaxAge {
		p.lost = true
		s.misses = append(s.misses, Miss{Peer: p.Index, Since: p.asked})
	}
	switch {
	case s.Sweeping(p):
		s.plan(p, boottime.Never)
	case p.lost:
		s.plan(p, now.Add(s.jitter(s.lostInterval())))
	default:
		s.plan(p, now.Add(s.patience(p)))
	}
}

// patience returns the time after which an unanswered probe is repeated. Samples are repeated quickly, because the
// vouch for all peers waits for them; if many peers are silent, they are probed less often.
func (s *Schedule) patience(p *Peer) time.Duration {
	t := s.params.EvidenceTimeout
	switch {
	case p.looked() && s.samples.loss < 0.02:
		return s.jitter(s.params.EvidenceInterval) // a look is repeated
	case p.looked():
		return t * 5 / 4
	case p.sampled != 0:
		return t * 3 / 4
	}
	return max(t, time.Duration(s.open)*time.Second/retryRate) + s.jitter(t/4)
}

// lostInterval returns the time between two probes of a lost peer.
func (s *Schedule) lostInterval() time.Duration {
	return max(s.params.EvidenceInterval, time.Duration(s.lost)*time.Second/lostRate)
}

// Replied returns the probe that a reply belongs to.
func (s *Schedule) Replied(p *Peer, id uint64, now boottime.Instant) (Probe, bool) {
	for i, o := range p.sent {
		if o.ID != id {
			continue
		}
		p.sent = append(p.sent[:0], p.sent[i+1:]...)
		return o, now.Sub(o.At) < s.params.EvidenceMaxAge
	}
	return Probe{}, false
}

// Answered handles the answer to a probe, and plans the next probe one interval after the answer. So the age of
// evidence stays below interval plus round trip if no packet is lost. If samples are taken, the next probe comes when
// the peer is a sample again.
func (s *Schedule) Answered(p *Peer, o Probe, contact bool, now boottime.Instant) {
	s.closeDirect(p)
	if o.At >= p.proven {
		p.proven, p.contact = o.At, contact
	}
	p.turn++
	if o.At >= p.telling { // an answer to an earlier probe does not confirm the news
		p.telling = 0
	}
	back := p.lost
	if contact && o.At >= p.aside { // on a slow network the answer to a probe from before the miss may arrive after it
		p.aside = 0
	}
	if p.asked, p.lost = 0, false; len(p.sent) > 0 {
		p.asked = p.sent[0].At
	}
	if p.proven >= s.sweep.began {
		p.swept = 0 // the sweep needs nothing more from this peer
	}
	s.closeSample(p, now)
	if back {
		s.recover(now)
	}
	switch {
	case s.Sweeping(p):
		s.plan(p, boottime.Never)
	case s.sampling() && s.vouchable(p) && p.sampled == 0:
		p.asked = 0
		s.plan(p, boottime.Never)
		if p.curious { // its statement was requested after the sweep had probed it briefly
			s.Urge(p, now)
		}
	default:
		interval := s.pace.Interval
		switch {
		case s.sampling():
			interval = s.params.EvidenceInterval
		case s.Shares():
			interval = interval * 9 / 8 // later than the other networks
		}
		due := max(now, o.At.Add(s.jitter(interval)))
		if len(p.sent) > 0 { // on a slow network the later probes may still be answered
			due = max(due, p.sentAt.Add(s.params.EvidenceTimeout*5/4))
		}
		s.plan(p, due)
	}
}

func (s *Schedule) recover(now boottime.Instant) {
	if s.lost == 0 {
		return
	}
	for range recoverFanout {
		// Lost peers may be anywhere in the list: if there are many, a bounded search finds some.
		for range 8 {
			if p := s.all[s.rand.IntN(len(s.all))]; p.lost {
				s.Urge(p, now)
				break
			}
		}
	}
}

// Renew forgets all evidence, and probes every peer.
func (s *Schedule) Renew(now boottime.Instant) {
	s.stopSweep()
	s.stopSampling(now)
	for i, p := range s.all {
		p.contact, p.asked, p.lost, p.aside = false, 0, false, 0
		s.plan(p, now.Add(s.params.RoundTime(len(s.all))*time.Duration(i)/time.Duration(len(s.all))))
	}
	s.pace, s.met, s.bound = netgossip.Pace{}, false, false
	s.count(now)
}

// Verify probes a peer because another network misses it, or because memberlist's state of it has changed.
func (s *Schedule) Verify(p *Peer, missed bool, now boottime.Instant) {
	switch {
	case s.sampling() && s.vouchable(p):
		// The peer only was not listed by memberlist yet, for instance after a start.
		if missed {
			s.sampleOf(p, now)
		} else if p.asked == 0 && p.sampled == 0 && !s.Sweeping(p) {
			s.plan(p, boottime.Never)
		}
	case p.lost && missed:
		// If the peer is also lost on another network, that is not a reason to probe it: after a cut this is true for
		// half of the group.
	case p.lost:
		// After a partition many peers come back at once.
		within := s.params.RoundTime(s.lost)
		if at := now.Add(time.Duration(s.rand.Float64() * float64(within))); at.Before(p.due) {
			s.plan(p, max(at, p.sentAt.Add(urgeInterval)))
		}
	case !missed && s.vouchable(p) && p.asked == 0 && now.Sub(p.proven) < s.params.EvidenceInterval:
		// The peer has just answered: that memberlist now lists it is not a reason to probe it again.
	case !missed && p.proven == 0 && p.asked == 0 && len(s.all) > fewPeers:
		// A node that joins a large group hears of all peers at once, and probes them as planned.
	default:
		gap := s.params.RoundTime(len(s.all)) / time.Duration(len(s.all))
		s.urged = max(s.urged, now.Add(-fewPeers*gap)).Add(gap)
		s.Urge(p, max(now, s.urged))
	}
}

// Urge brings the next probe of a peer forward to now, within bounds.
func (s *Schedule) Urge(p *Peer, now boottime.Instant) {
	if at := max(now, p.sentAt.Add(urgeInterval)); at.Before(p.due) && !s.Sweeping(p) {
		s.plan(p, at)
	}
}

// AskStatement requests a peer's statement soon.
func (s *Schedule) AskStatement(p *Peer, now boottime.Instant) {
	p.curious = true
	s.Urge(p, now)
}

// Ask requests the statements of peers, once each, in random order and at the rate of a sweep. It replaces the peers of
// the call before that have not been asked yet.
func (s *Schedule) Ask(wanted func(peer int) bool, now boottime.Instant) {
	s.asks.start(s.all, now, 0, func(p *Peer) bool { return wanted(p.Index) && !p.lost })
	if n := len(s.asks.queue); n > 0 {
		s.asks.gap = s.params.RoundTime(n) / time.Duration(n)
	}
	s.rand.Shuffle(len(s.asks.queue), func(i, j int) {
		s.asks.queue[i], s.asks.queue[j] = s.asks.queue[j], s.asks.queue[i]
	})
}

// jitter spreads d by an eighth, so that the nodes' probes are not synchronous.
func (s *Schedule) jitter(d time.Duration) time.Duration {
	if d < 16 {
		return d
	}
	return d - d/16 + time.Duration(s.rand.Int64N(int64(d/8)))
}

func (s *Schedule) plan(p *Peer, due boottime.Instant) {
	p.due = due
	heap.Fix((*byDue)(s), p.position)
}

// byDue is the heap of a schedule's peers.
type byDue Schedule

func (h *byDue) Len() int           { return len(h.peers) }
func (h *byDue) Less(i, j int) bool { return h.peers[i].due < h.peers[j].due }
func (h *byDue) Swap(i, j int) {
	h.peers[i], h.peers[j] = h.peers[j], h.peers[i]
	h.peers[i].position, h.peers[j].position = i, j
}
func (h *byDue) Push(any) { panic("probing: the peers are fixed") }
func (h *byDue) Pop() any { panic("probing: the peers are fixed") }
