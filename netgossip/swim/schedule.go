package swim

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

const (
	// maxOutstanding bounds the unanswered probes remembered per peer. They must reach
	// back EvidenceMaxAge, or a network slower than a few EvidenceTimeouts would give
	// no evidence at all.
	maxOutstanding = 32
	// urgeInterval is the least time between two probes of a peer that are sent for
	// another reason than the passing of time. Nudges in between become one.
	urgeInterval = 50 * time.Millisecond
)

// target is another member of the roster and where it is on this network.
type target struct {
	index int // in the roster
	addr  memberlist.Address
}

// peer is a target and how the probing of it stands.
type peer struct {
	target

	due      boottime.Instant // of the next probe
	position int              // in the heap
	sentAt   boottime.Instant // latest probe
	sent     []outstanding    // unanswered, oldest first
	proven   boottime.Instant // sentAt of the latest answered probe, or the start

	known  *netgossip.Statement // of the latest answer that had one; nil: none
	digest uint64               // that came with known
	holds  uint64               // digest of our statement that the peer said it holds
}

// outstanding is an unanswered probe.
type outstanding struct {
	id   uint64
	at   boottime.Instant
	held *netgossip.Statement // that the probe named
}

// sharesRoster reports whether the peer counts by the roster r, as far as it has said.
func (p *peer) sharesRoster(r *netgossip.Roster) bool {
	return p.known != nil && p.known.RosterDigest == r.Digest && p.known.RosterEpoch == r.Epoch
}

// schedule decides when which peer is probed. It is pure but for its random source, and
// owned by the evidence goroutine.
//
// All peers are probed, so two-way evidence of each is never older than EvidenceMaxAge
// without being noticed. For rosters so large that this costs too much, sampling goes
// here: next would skip peers and urgeAll reach only some, everything else stays.
type schedule struct {
	interval, timeout, maxAge time.Duration
	rand                      *rand.Rand
	peers                     []*peer // by due time, a heap
	byIndex                   map[int]*peer
}

// newSchedule spreads the first probes evenly over one interval, with a random phase.
func newSchedule(p netgossip.Params, targets []target, now boottime.Instant, rnd *rand.Rand) *schedule {
	s := &schedule{
		interval: p.EvidenceInterval,
		timeout:  p.EvidenceTimeout,
		maxAge:   p.EvidenceMaxAge,
		rand:     rnd,
		byIndex:  make(map[int]*peer, len(targets)),
	}
	phase := s.rand.Float64()
	for i, t := range targets {
		due := now.Add(time.Duration((float64(i) + phase) / float64(len(targets)) * float64(s.interval)))
		q := &peer{target: t, due: due, proven: now, position: i}
		s.peers = append(s.peers, q)
		s.byIndex[t.index] = q
	}
	heap.Init(s)
	return s
}

// next returns the peer that is due first, or nil without peers.
func (s *schedule) next() *peer {
	if len(s.peers) == 0 {
		return nil
	}
	return s.peers[0]
}

// silent reports whether the peer has proven nothing for longer than evidence lasts.
func (s *schedule) silent(p *peer, now boottime.Instant) bool { return now.Sub(p.proven) > s.maxAge }

// probed notes that a probe is being sent now and plans the next one as if no answer came.
func (s *schedule) probed(p *peer, id uint64, now boottime.Instant) {
	keep := p.sent[:0]
	for _, o := range p.sent {
		if now.Sub(o.at) < s.maxAge {
			keep = append(keep, o)
		}
	}
	if len(keep) == maxOutstanding {
		keep = append(keep[:0], keep[1:]...)
	}
	p.sent = append(keep, outstanding{id, now, p.known})
	p.sentAt = now
	if s.silent(p, now) {
		s.plan(p, now.Add(s.jitter(s.interval)))
		return
	}
	s.plan(p, now.Add(s.timeout+s.jitter(s.timeout/4)))
}

// replied matches a reply with a probe and returns that. The next probe
// follows one interval after it, so that the age of evidence stays below interval plus
// round trip when nothing is lost.
func (s *schedule) replied(p *peer, id uint64, now boottime.Instant) (outstanding, bool) {
	for i, o := range p.sent {
		if o.id != id {
			continue
		}
		p.sent = append(p.sent[:0], p.sent[i+1:]...)
		if now.Sub(o.at) >= s.maxAge {
			return outstanding{}, false
		}
		p.proven = max(p.proven, o.at)
		due := max(now, o.at.Add(s.jitter(s.interval)))
		if len(p.sent) > 0 { // on a slow network the younger probes still deserve their time
			due = max(due, p.sentAt.Add(s.timeout+s.timeout/4))
		}
		s.plan(p, due)
		return o, true
	}
	return outstanding{}, false
}

// urge brings the next probe of a peer forward to now, within bounds.
func (s *schedule) urge(p *peer, now boottime.Instant) {
	if at := max(now, p.sentAt.Add(urgeInterval)); at.Before(p.due) {
		s.plan(p, at)
	}
}

func (s *schedule) urgeAll(now boottime.Instant) {
	for _, p := range s.byIndex {
		s.urge(p, now)
	}
}

// jitter spreads d by an eighth, so that the nodes' probes do not march in step.
func (s *schedule) jitter(d time.Duration) time.Duration {
	if d < 16 {
		return d
	}
	return d - d/16 + time.Duration(s.rand.Int64N(int64(d/8)))
}

func (s *schedule) plan(p *peer, due boottime.Instant) {
	p.due = due
	heap.Fix(s, p.position)
}

// Len, Less, Swap, Push and Pop are heap.Interface.
func (s *schedule) Len() int           { return len(s.peers) }
func (s *schedule) Less(i, j int) bool { return s.peers[i].due < s.peers[j].due }
func (s *schedule) Swap(i, j int) {
	s.peers[i], s.peers[j] = s.peers[j], s.peers[i]
	s.peers[i].position, s.peers[j].position = i, j
}
func (s *schedule) Push(any) { panic("schedule: the peers are fixed") }
func (s *schedule) Pop() any { panic("schedule: the peers are fixed") }
