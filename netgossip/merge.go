package netgossip

import (
	"iter"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// MergerConfig holds the settings of a Merger.
type MergerConfig struct {
	Roster   *roster.Roster
	Networks int // number of SystemNetworks
	Policy   Policy
	MaxAge   time.Duration // D_max: evidence of this age or more does not count
	// Countable reports whether a peer with this standing may be counted; nil: only peers that use Roster and no other
	// list may. After its answers have changed, call Recount.
	Countable func(*roster.Standing) bool
}

// Electorate is a set of members of which a quorum must be counted.
type Electorate struct {
	Members roster.Set
	Quorum  int
}

// Merger merges the networks' reports into one view. It is not safe for concurrent use.
type Merger struct {
	roster *roster.Roster
	maxAge time.Duration
	needed int
	up     []bool             // per network: this node's interface has carrier and address
	vouch  []boottime.Instant // per network: the latest Vouched
	links  []link             // [network*N + peer]
	peers  []peer             // [peer]

	barred      roster.Set // peers that are neither seen nor counted, no matter what they state
	countable   func(*roster.Standing) bool
	electorates []Electorate // nil: the whole roster, by the quorum that Evaluate is given

	expiry []boottime.Instant // scratch of Evaluate
	voters []int              // scratch of Evaluate: the peers that these expiries belong to
}

type link struct {
	anchor  boottime.Instant // of the evidence: start of the latest probe of this node that was answered
	lostAt  boottime.Instant // when memberlist declared it dead; evidence from before is void
	answer  boottime.Instant // start of the latest probe of this node that was answered, no matter what the answer said
	contact boottime.Instant // start of the latest such probe whose answer said that the peer sees us
	missed  boottime.Instant // start of the latest probe that had no such answer
	proven  boottime.Instant // when the peer was last proven to be there, for people: no decision uses it, and nothing voids it
	alive   bool             // memberlist's opinion
}

type peer struct {
	statement *Statement       // the one with the latest anchor
	anchor    boottime.Instant // of statement
	heard     boottime.Instant // start of the probe whose answer set contact and mutual
	sighted   boottime.Instant // any packet at all, which proves one direction only
	said      *Statement       // the original of statement, if that uses another roster
	relay     Relay            // of the same answer
	clock     boottime.Instant // Answer.Clock of the answer that set anchor
	contact   bool             // the peer states that it sees us
	mutual    bool             // the peer states that it sees us, and uses only rosters that we use
}

// View is one evaluation of a Merger: which peers are reachable, and until when that is valid without new evidence. It
// is a value and holds no reference to the Merger.
type View struct {
	Seen    roster.Set // peers with fresh evidence on enough networks, without self
	Contact roster.Set // peers that are seen and see us, with any roster, without self
	Counted roster.Set // peers that are seen, see us and have our roster; plus self
	// QuorumUntil is the instant at which the counted set falls below the required quorum if no further evidence
	// arrives; zero if it is already below.
	QuorumUntil boottime.Instant
	// NextExpiry is the earliest instant at which Seen or Counted shrinks by itself.
	NextExpiry boottime.Instant
}

// NewMerger returns a Merger with every network up and no peer seen.
func NewMerger(c MergerConfig) *Merger {
	n := c.Roster.Size()
	m := &Merger{
		roster: c.Roster,
		maxAge: c.MaxAge,
		needed: c.Policy.Needed(c.Networks),
		up:     make([]bool, c.Networks),
		vouch:  make([]boottime.Instant, c.Networks),
		links:  make([]link, c.Networks*n),
		peers:  make([]peer, n),
		expiry: make([]boottime.Instant, 0, 2*n),
		voters: make([]int, 0, n),

		countable: c.Countable,
	}
	for i := range m.up {
		m.up[i] = true
	}
	return m
}

func (m *Merger) valid(network, p int) bool {
	return network >= 0 && network < len(m.up) && p >= 0 && p < len(m.peers) && p != m.roster.Self
}

func (m *Merger) link(network, p int) *link { return &m.links[network*len(m.peers)+p] }

// MemberChanged records memberlist's state of a peer. A death voids earlier evidence, so a crash takes effect as soon
// as SWIM reports it. Later evidence stays valid, so a false accusation does not lose a peer that we reach ourselves. A
// death is dated by the latest instant at which the accusation can have begun.
func (m *Merger) MemberChanged(network, p int, alive bool, at boottime.Instant) {
	if !m.valid(network, p) {
		return
	}
	l := m.link(network, p)
	if !alive {
		l.proven = max(l.proven, min(m.evidence(network, p), at))
	}
	l.alive = alive
	if alive {
		return
	}
	if l.lostAt = max(l.lostAt, at); l.answer <= l.lostAt {
		l.anchor = 0 // even if a vouch has dated it later: a vouch is not an answer of the peer itself
	}
}

// LinkChanged records changes of carrier and address on this node's side of a network. While the network is down, no
// peer is reachable there, however fresh the evidence is. Evidence from before the change does not count when the
// network is up again.
func (m *Merger) LinkChanged(network int, up bool) {
	if network < 0 || network >= len(m.up) || m.up[network] == up {
		return
	}
	m.up[network] = up
	if up {
		for p := range m.peers {
			l := m.link(network, p)
			l.proven = max(l.proven, m.evidence(network, p))
			l.anchor, l.answer, l.contact = 0, 0, 0
		}
		m.vouch[network] = 0
	}
}

// Heard records a sign of life, which proves one direction only.
func (m *Merger) Heard(network, p int, at boottime.Instant) {
	if m.valid(network, p) && m.peers[p].sighted < at {
		m.peers[p].sighted = at
	}
}

// Answered records two-way evidence. An answer older than one already known changes nothing.
func (m *Merger) Answered(a Answer) {
	if !m.valid(a.Network, a.Peer) || a.Statement == nil && a.Sight == 0 {
		return
	}
	l, p := m.link(a.Network, a.Peer), &m.peers[a.Peer]
	l.anchor, l.answer, l.proven = max(l.anchor, a.SentAt), max(l.answer, a.SentAt), max(l.proven, a.SentAt)
	p.sighted = max(p.sighted, a.SentAt)
	if a.SentAt >= p.heard && !a.Statement.outdated(p.statement) {
		p.heard, p.relay = a.SentAt, a.Relay
		m.hear(p, &a)
	}
	if p.contact {
		l.contact = max(l.contact, a.SentAt)
	} else {
		l.missed = max(l.missed, a.SentAt)
	}
}

// hear records the contents of the latest answer. A brief answer only states whether the peer sees us; all else comes
// from the statement. Without a statement no peer is counted.
func (m *Merger) hear(p *peer, a *Answer) {
	if a.Statement == nil {
		p.contact = p.contact && a.Sight == SightSeen
		p.mutual = p.mutual && p.contact
		return
	}
	p.anchor, p.clock = a.SentAt, a.Clock
	if m.sameRoster(a.Statement) {
		p.statement, p.said = a.Statement, nil
		p.contact = a.Statement.Seen.Has(m.roster.Self)
	} else {
		if p.said != a.Statement {
			p.statement, p.said = a.Statement.foreign(), a.Statement
		}
		p.contact = a.Sees
	}
	p.mutual = p.contact && m.counts(p.statement)
}

func (m *Merger) counts(s *Statement) bool {
	if m.countable == nil {
		return m.sameRoster(s)
	}
	st := s.Stands()
	return m.countable(&st)
}

// Recount must be called when the answers of Countable, or the electorates, have changed.
func (m *Merger) Recount(electorates []Electorate) {
	m.electorates = electorates
	for i := range m.peers {
		if p := &m.peers[i]; p.statement != nil {
			p.mutual = p.contact && m.counts(p.statement)
		}
	}
}

func (m *Merger) sameRoster(s *Statement) bool {
	return s.RosterDigest == m.roster.Digest && s.RosterEpoch == m.roster.Epoch
}

// Bar sets the peers that are neither seen nor counted from now on, no matter what they state: their boots are
// condemned.
func (m *Merger) Bar(peers roster.Set) { m.barred = peers }

// Statement returns the peer's latest statement, or nil, and the instant for which it is proven.
func (m *Merger) Statement(p int) (*Statement, boottime.Instant) {
	return m.peers[p].statement, m.peers[p].anchor
}

// Clock returns what the peer's clock showed when it made the answer that proves its latest statement; 0: unknown.
func (m *Merger) Clock(p int) boottime.Instant { return m.peers[p].clock }

// Said yields the latest statement of each of the members, if it is proven for an instant not before since. It yields
// none for this node.
func (m *Merger) Said(members roster.Set, since boottime.Instant) iter.Seq2[int, *Statement] {
	return func(yield func(int, *Statement) bool) {
		for p := range members.All() {
			if l := &m.peers[p]; l.statement != nil && l.anchor >= since && !yield(p, l.statement) {
				return
			}
		}
	}
}

// Ways distributes peers over the networks on which they are reachable: each peer gets one network, and with another
// turn a different network. A peer that is not reachable gets none.
func (m *Merger) Ways(now boottime.Instant, peers roster.Set, turn int) []roster.Set {
	ways := make([]roster.Set, len(m.up))
	for p := range peers.All() {
		for k := range m.up {
			network := (p + turn + k) % len(m.up)
			if m.valid(network, p) && m.linkExpiry(network, p) > now {
				ways[network].Add(p)
				break
			}
		}
	}
	return ways
}

// AnsweredSince reports whether a peer has answered probes that were sent after an instant, on as many networks as the
// policy asks for.
func (m *Merger) AnsweredSince(p int, at boottime.Instant) bool {
	networks := 0
	for k := range m.up {
		if m.valid(k, p) && m.up[k] && m.link(k, p).answer > at {
			networks++
		}
	}
	return networks >= m.needed
}

// Relay returns the peer's statement about the LUN in its latest answer.
func (m *Merger) Relay(p int) Relay { return m.peers[p].relay }

// Sighted returns the date of a peer's latest sign of life, which may prove one direction only.
func (m *Merger) Sighted(p int) boottime.Instant { return m.peers[p].sighted }

// LinkState returns the state of a peer on one network: whether memberlist calls it alive, when a probe of ours or a
// vouch last proved that the peer was there, and whether it is reachable there. The instant is for people: it is kept
// even if the evidence is void, so "never" appears only for a peer that has never answered.
//
// If each of many peers is probed and one network is enough, the networks take turns. A link's evidence may then be
// older than MaxAge because no probe was sent there. Such a link is shown as reachable for another MaxAge while another
// network reaches the peer, unless the peer was missed on this one. Views use only fresh evidence.
func (m *Merger) LinkState(network, p int, now boottime.Instant) (alive bool, proven boottime.Instant, reachable bool) {
	l := m.link(network, p)
	expiry := m.linkExpiry(network, p)
	if reachable = expiry > now; !reachable && expiry > 0 && m.needed == 1 && m.vouches(l) && len(m.peers) > sharedFrom {
		reachable = expiry.Add(m.maxAge) > now && m.peerExpiry(p) > now
	}
	return l.alive, max(l.proven, m.evidence(network, p)), reachable
}

// sharedFrom is the size of the largest group in which each peer is asked on each network within MaxAge.
const sharedFrom = 300

// NetworkUp reports whether this node's side of a network has carrier and address.
func (m *Merger) NetworkUp(network int) bool { return m.up[network] }

// linkExpiry returns the instant until which the peer is reachable on the network.
func (m *Merger) linkExpiry(network, p int) boottime.Instant {
	at := m.evidence(network, p)
	if !m.up[network] || at == 0 || at <= m.link(network, p).lostAt {
		return 0
	}
	return at.Add(m.maxAge)
}

// peerExpiry returns the instant until which the peer is seen: the needed-th latest of its expiries on the networks. It
// counts instead of sorting, which needs no allocation; there are only a few networks.
func (m *Merger) peerExpiry(p int) boottime.Instant {
	if m.needed == 1 {
		var latest boottime.Instant
		for n := range m.up {
			latest = max(latest, m.linkExpiry(n, p))
		}
		return latest
	}
	var kth boottime.Instant
	for n := range m.up {
		e := m.linkExpiry(n, p)
		if e <= kth {
			continue
		}
		atLeast := 0
		for o := range m.up {
			if m.linkExpiry(o, p) >= e {
				atLeast++
			}
		}
		if atLeast >= m.needed {
			kth = e
		}
	}
	return kth
}

// Evaluate computes the view at now for the given quorum. It does not allocate.
func (m *Merger) Evaluate(now boottime.Instant, quorum int) View {
	v := View{NextExpiry: boottime.Never}
	v.Counted.Add(m.roster.Self)
	m.expiry, m.voters = m.expiry[:0], m.voters[:0]
	for p := range m.peers {
		if p == m.roster.Self {
			continue
		}
		e := m.peerExpiry(p)
		if e <= now || m.barred.Has(p) {
			continue
		}
		v.Seen.Add(p)
		v.NextExpiry = min(v.NextExpiry, e)
		// Every answer says whether the peer sees us, and a vouch covers only peers that do. So this is as fresh as the
		// evidence that we see the peer. The rest of its statement may be older.
		if st := &m.peers[p]; st.contact {
			v.Contact.Add(p)
			if st.mutual {
				v.Counted.Add(p)
				m.expiry, m.voters = append(m.expiry, e), append(m.voters, p)
			}
		}
	}
	m.quorumUntil(&v, now, quorum)
	return v
}

// quorumUntil sets QuorumUntil: the quorum lasts as long as the shortest quorum of the electorates.
func (m *Merger) quorumUntil(v *View, now boottime.Instant, quorum int) {
	if m.electorates == nil {
		v.QuorumUntil = m.lastsUntil(m.expiry, now, quorum-1) // self needs no evidence
		return
	}
	all := len(m.expiry)
	for i, e := range m.electorates {
		others := e.Quorum
		if e.Members.Has(m.roster.Self) {
			others--
		}
		for _, p := range m.voters {
			if e.Members.Has(p) {
				m.expiry = append(m.expiry, m.peerExpiry(p))
			}
		}
		until := m.lastsUntil(m.expiry[all:], now, others)
		m.expiry = m.expiry[:all]
		if i == 0 || until < v.QuorumUntil {
			v.QuorumUntil = until
		}
	}
}

func (m *Merger) lastsUntil(expiry []boottime.Instant, now boottime.Instant, others int) boottime.Instant {
	switch {
	case others > len(expiry):
		return 0
	case others <= 0:
		return now.Add(m.maxAge)
	default:
		return KthLatest(expiry, others)
	}
}

// KthLatest returns the k-th largest element (k from 1). It reorders s.
func KthLatest(s []boottime.Instant, k int) boottime.Instant {
	lo, hi, want := 0, len(s)-1, len(s)-k
	for lo < hi {
		// Median of three keeps already sorted evidence, the usual case, linear.
		mid := lo + (hi-lo)/2
		pivot := max(min(s[lo], s[mid]), min(max(s[lo], s[mid]), s[hi]))
		i, j := lo, hi
		for i <= j {
			for s[i] < pivot {
				i++
			}
			for s[j] > pivot {
				j--
			}
			if i <= j {
				s[i], s[j] = s[j], s[i]
				i++
				j--
			}
		}
		switch {
		case want <= j:
			hi = j
		case want >= i:
			lo = i
		default:
			return s[want]
		}
	}
	return s[want]
}

// Outcome is the result of comparing the counted members with the roster.
type Outcome uint8

const (
	Minority Outcome = iota + 1
	EqualSplit
	Majority
)

func (o Outcome) String() string {
	return [...]string{"invalid", "minority", "equal-split", "majority"}[o]
}

// TallyOf compares a counted set with N and the quorum. It is an equal split if exactly half of an even roster is
// counted and half is not already a quorum.
func TallyOf(counted roster.Set, size, quorum int) Outcome {
	switch n := counted.Len(); {
	case n >= quorum:
		return Majority
	case 2*n == size:
		return EqualSplit
	default:
		return Minority
	}
}
