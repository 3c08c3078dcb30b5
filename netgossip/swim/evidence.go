package swim

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/probing"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

// inboxBurst is the number of arrivals that are handled before one due probe is sent: replies must be fast, but a flood
// must not stop this node's probing.
const inboxBurst = 16

// grain is the smallest unit of waiting: everything that is due within one grain is done together, which saves most
// wakeups while many peers are probed.
const grain = time.Millisecond

// arrival is one event that the delegates hand over.
type arrival struct {
	packet []byte // of the evidence protocol; nil: a report about the peer
	peer   int
	missed bool // another network misses the peer
	proven bool // another network has the peer's answer to a probe sent at the instant at
	told   bool // the answer had the peer's statement
	dead   bool // memberlist calls the peer dead
	look   bool // the peer is in doubt: probe it now
	at     boottime.Instant
}

// request holds the pending requests of the instance's owner, merged into one.
type request struct {
	nudge, announce, renew, doubt bool
	last                          time.Duration // announce within that time; 0: no announcement
	demand                        netgossip.Demand
	fetch                         fetchOf     // zero: no new list
	ask                           *roster.Set // peers whose statements are wanted; nil: as before
	words                         []spokenWord
}

// evidence runs the evidence protocol of one instance: it probes the peers, answers their probes and reports the
// results. One goroutine, run, owns everything but the two channels.
type evidence struct {
	cfg     *Config
	self    string
	tag     uint32 // of this node's roster
	gate    *gate
	count   *counters
	journal *journal
	rejoin  *rejoiner
	ledger  *ledger

	inbox chan arrival
	wake  boottime.Wake // there is a request

	mu      sync.Mutex
	request request // guarded by mu

	targets  []target
	list     *memberlist.Memberlist
	schedule *probing.Schedule
	peers    map[int]*peer // the peers of the schedule, by roster index
	buf      []byte        // scratch of transmit
	handover handover
	words    []spokenWord // to be sent

	said   *netgossip.Statement // the statement of this node that digest belongs to
	digest uint64

	shares atomic.Bool    // answers on other networks have to be reported here
	owing  []atomic.Int64 // by target: the time from which an answer has been due; 0: none is due

	// What has already been reported:
	vouched         boottime.Instant
	samples, misses uint64
	closed, lates   uint64
	mode            probing.Mode
}

// newEvidence sizes the inbox for the replies to one round of probes and for the probes of all peers at once.
func newEvidence(in *Instance, targets []target) *evidence {
	return &evidence{
		cfg:     &in.cfg,
		self:    in.cfg.Roster.Name(in.cfg.Roster.Self),
		tag:     wire.RosterTag(in.cfg.Roster),
		gate:    in.gate,
		count:   in.count,
		journal: in.journal,
		rejoin:  in.rejoin,
		ledger:  in.ledger,
		inbox:   make(chan arrival, max(64, 4*len(targets))),
		wake:    boottime.NewWake(),
		targets: targets,
		owing:   make([]atomic.Int64, len(targets)),
	}
}

// post hands over an arrival and never blocks.
func (e *evidence) post(a arrival) {
	select {
	case e.inbox <- a:
	default:
		e.count.refused[refusedOverflow].add(1)
	}
}

// ask changes the request and never blocks.
func (e *evidence) ask(change func(*request)) {
	e.mu.Lock()
	change(&e.request)
	e.mu.Unlock()
	e.wake.Signal()
}

func (e *evidence) run(ctx context.Context, list *memberlist.Memberlist) {
	e.list = list
	e.plan(rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	timer := time.NewTimer(0)
	defer timer.Stop()
	var armed boottime.Instant // when the timer fires
	for ctx.Err() == nil {
		e.drain()
		now := e.cfg.Clock()
		if wait := e.step(now); wait > 0 {
			if at := now.Add(min(wait, time.Hour)+grain-1) / boottime.Instant(grain) * boottime.Instant(grain); at != armed {
				armed = at
				timer.Reset(at.Sub(now))
			}
			select {
			case <-ctx.Done():
				return
			case a := <-e.inbox:
				e.handle(a)
			case <-e.wake:
				e.grant()
			case <-timer.C:
				armed = 0
			}
		}
	}
}

func (e *evidence) plan(rnd *rand.Rand) {
	now := e.cfg.Clock()
	e.begin(probing.Config{
		Listed: func(peer int) bool { return e.rejoin.listed[peer].Load() },
		Heard:  func() boottime.Instant { return boottime.Instant(e.ledger.heard.Load()) },
		Late:   e.cfg.Doubts != nil,
		Rand:   rnd,
	}, now)
	if e.cfg.Known != nil {
		e.schedule.Recall(e.cfg.Known, now)
	}
	e.grant()
}

// begin creates the schedule of the targets, and this package's own state of each.
func (e *evidence) begin(c probing.Config, now boottime.Instant) {
	c.Params, c.Network = e.cfg.Params, e.cfg.Network
	for _, t := range e.targets {
		c.Peers = append(c.Peers, t.index)
	}
	e.schedule = probing.New(c, now)
	e.peers = make(map[int]*peer, len(e.targets))
	for i, t := range e.targets {
		e.peers[t.index] = &peer{Peer: e.schedule.Peer(t.index), addr: t.addr, owing: &e.owing[i]}
	}
}

func (e *evidence) grant() {
	e.mu.Lock()
	r := e.request
	e.request = request{demand: r.demand}
	e.mu.Unlock()
	now := e.cfg.Clock()
	_, digest := e.statement()
	e.schedule.SetSaid(digest)
	e.schedule.SetDemand(r.demand, now)
	if r.renew {
		e.schedule.Renew(now)
		for i := range e.owing {
			e.owing[i].Store(0)
		}
	}
	if r.doubt {
		e.schedule.Doubt(now)
	}
	if r.ask != nil {
		e.schedule.Ask(r.ask.Has, now)
	}
	if r.fetch != (fetchOf{}) {
		e.fetch(r.fetch, now)
	}
	e.words = append(e.words, r.words...)
	if r.last > 0 {
		e.schedule.LastWords(r.last, now)
	} else if r.announce {
		e.schedule.NudgeAll(now)
	} else if r.nudge {
		e.schedule.NudgeSome(now)
	}
}

// drain handles what has arrived, up to a bound.
func (e *evidence) drain() {
	for range inboxBurst {
		select {
		case a := <-e.inbox:
			e.handle(a)
		default:
			return
		}
	}
}

// step sends at most one due probe and returns the time until the next one.
func (e *evidence) step(now boottime.Instant) time.Duration {
	e.schedule.Tick(now)
	p, brief, wait := e.schedule.Next(now)
	if p != nil {
		e.probe(e.peers[p.Index], brief)
	}
	e.report()
	if e.speak() {
		wait = min(wait, grain)
	}
	return wait
}

// probe sends a probe to a peer. The instant is taken before the send: evidence may look older than it is, but never
// younger. A brief probe does not ask for the peer's statement.
func (e *evidence) probe(p *peer, brief bool) {
	e.count.health.Set(float64(e.list.GetHealthScore()))
	m := e.question(p, brief)
	now := e.cfg.Clock()
	e.schedule.Probed(p.Peer, m.ID, now)
	p.owing.Store(int64(p.Asked()))
	if e.cfg.Doubts != nil {
		e.cfg.Doubts.probed(e, p.Index)
	}
	e.count.probes.add(1)
	e.transmit(p, m)
}

func (e *evidence) question(p *peer, brief bool) wire.Message {
	m := wire.Message{Kind: wire.Probe, ID: rand.Uint64() | 1, Roster: e.tag, Holds: p.Digest, Brief: brief && p.Known != nil}
	if m.Brief && e.schedule.Sweeping(p.Peer) {
		m.Holds = 0 // only the answer itself matters here, and in a large group every byte counts
	}
	if !brief && e.schedule.Tells(p.Peer) {
		if _, digest := e.statement(); digest != 0 && p.Holds != digest {
			m.News = wire.NewsOf(digest)
		}
	}
	// A peer with another roster cannot know which node a number means. So the probe names its sender if the last one
	// was not answered.
	e.sign(&m, p.sharesRoster(e.cfg.Roster) && !p.Owes())
	m.Wanted = e.wants(p, e.cfg.Clock())
	m.Bare = e.cfg.Doubts != nil && !e.schedule.Sweeping(p.Peer) && e.cfg.Doubts.bare(p.Index)
	return m
}

// clock returns the reading of this node's clock for its packets. Before there is a statement, peers cannot know to
// which boot it belongs.
func (e *evidence) clock() uint64 {
	s, _ := e.statement()
	if s == nil || s.Boot == 0 {
		return 0
	}
	return wire.ClockOf(s.Boot, e.cfg.Clock())
}

func (e *evidence) sign(m *wire.Message, byNumber bool) {
	if m.Member = e.cfg.Roster.Self; !byNumber {
		m.Name = e.self
	}
}

// statement returns this node's present statement and its digest; nil and 0 before there is one.
func (e *evidence) statement() (*netgossip.Statement, uint64) {
	if s := e.cfg.Statement(); s != e.said {
		if e.said, e.digest = s, 0; s != nil {
			e.digest = wire.Digest(s)
		}
	}
	return e.said, e.digest
}

func (e *evidence) transmit(p *peer, m wire.Message) {
	m.Clock = e.clock()
	var err error
	if e.buf, err = wire.Append(e.buf[:0], m); err == nil {
		err = e.list.SendToAddress(p.addr, e.buf)
	}
	if err != nil {
		// A probe that is not sent is not answered; the agent notices the missing answer.
		e.journal.warn("send", "an evidence packet was not sent", slog.String("peer", p.addr.Name), slog.Any("error", err))
	}
}

func (e *evidence) handle(a arrival) {
	if a.packet == nil {
		// memberlist, or another network, reports a change, which may be wrong: probe the peer itself.
		if p := e.peers[a.peer]; p != nil {
			if a.proven {
				e.schedule.ProvenElsewhere(p.Peer, a.at, a.told)
				return
			}
			if a.look {
				e.schedule.Look(p.Peer, e.cfg.Clock())
				return
			}
			if a.dead {
				p.Die(a.at)
			}
			e.schedule.Verify(p.Peer, a.missed, e.cfg.Clock())
		}
		return
	}
	m, err := wire.Decode(a.packet, e.cfg.Roster, e.tag)
	if errors.Is(err, wire.ErrOtherRoster) {
		e.count.refused[refusedRoster].add(1) // the sender will try again with its name
		return
	}
	if err != nil {
		e.refuse(refusedMalformed, "evidence packet refused", slog.Any("error", err))
		return
	}
	if m.Member == e.cfg.Roster.Self {
		e.refuse(refusedOwnName, "another node uses the name of this one: give each node a name of its own")
		return
	}
	p := e.peers[m.Member]
	if p == nil {
		e.refuse(refusedStranger, "evidence from a node that is not expected on this network", slog.String("sender", m.Name), slog.Int("member", m.Member))
		return
	}
	if m.Kind == wire.Doubt {
		if e.cfg.Doubts != nil && !e.cfg.Doubts.heed(e, p, &m, a.at) {
			e.refuse(refusedWord, "refused a word about a silent node: it does not have this node's cookie, or its age is not known: it was sent before a restart, or by a node that uses another node's name",
				slog.String("sender", p.addr.Name))
		}
		return
	}
	p.Hear(a.at)
	if m.Kind == wire.Probe {
		e.answer(p, m) // before anything else: the peer measures the time until our answer
	} else {
		e.evaluate(p, m, a.at)
	}
	if made := p.clock.dates(m.Clock, a.at); made > 0 {
		e.gate.pass(func() { e.cfg.Sink.Heard(e.cfg.Network, p.Index, made) })
	}
}

// answer replies to a probe. The probe shows that the peer is alive, and perhaps that it has a new statement. The
// statement counts only in the answer to a probe of ours, which bounds its age: so the peer is probed.
func (e *evidence) answer(p *peer, m wire.Message) {
	if s, digest := e.statement(); s != nil {
		e.takeHolds(p, m)
		reply := wire.Message{Kind: wire.Answer, ID: m.ID}
		e.sign(&reply, m.Roster == e.tag)
		seen, sameRoster := e.sees(s, p)
		switch {
		case m.Holds == digest:
			// The comparison uses the statement of this very moment: a reply never renews a statement that is no longer
			// valid for this node.
			reply.Unchanged = true
		case m.Brief && m.Roster == e.tag:
			if reply.Sight = netgossip.SightUnseen; seen {
				reply.Sight = netgossip.SightSeen
			}
		default:
			reply.Statement, reply.Digest = s, digest
		}
		reply.Sees = seen && !(sameRoster && m.Roster == e.tag)
		e.relay(&reply)
		if e.cfg.Doubts != nil && (m.Bare || reply.Statement != nil) {
			reply.Cookie = e.cfg.Doubts.cookieFor(p.addr.Name)
		}
		if reply.Statement == nil {
			reply.Piece = e.piece(m.Wanted)
		}
		e.transmit(p, reply)
	}
	now := e.cfg.Clock()
	if m.News != 0 && m.News != wire.NewsOf(p.Digest) || p.Absent() {
		e.schedule.AskStatement(p.Peer, now)
	}
}

// takeHolds records which statement of this node the sender of a probe holds. Probes of a sweep do not state it.
func (e *evidence) takeHolds(p *peer, m wire.Message) {
	if m.Holds != 0 || !m.Brief {
		p.Holds = m.Holds
	}
}

// relay adds this node's relay about the LUN, and its present age.
func (e *evidence) relay(reply *wire.Message) {
	if e.cfg.Relay == nil {
		return
	}
	if reply.Relay = e.cfg.Relay(); reply.Relay.Log != 0 {
		reply.RelayAge = max(0, e.cfg.Clock().Sub(reply.Relay.Anchor))
	}
}

// sees reports whether this node's statement has the peer among the seen, and whether its sets use the instance's
// roster. While the list of members changes, they may use another one.
func (e *evidence) sees(s *netgossip.Statement, p *peer) (seen, sameRoster bool) {
	if s.RosterDigest == e.cfg.Roster.Digest && s.RosterEpoch == e.cfg.Roster.Epoch {
		return s.Seen.Has(p.Index), true
	}
	return e.cfg.Sees != nil && e.cfg.Sees(s, p.addr.Name), false
}

// evaluate matches a reply with the probe that it answers.
func (e *evidence) evaluate(p *peer, m wire.Message, at boottime.Instant) {
	now := e.cfg.Clock()
	asked, ok := e.schedule.Replied(p.Peer, m.ID, now)
	if !ok {
		e.count.refused[refusedUnmatched].add(1)
		return
	}
	p.clock.read(m.Clock, at)
	answer := netgossip.Answer{Network: e.cfg.Network, Peer: p.Index, SentAt: asked.At, Statement: m.Statement, Sight: m.Sight, Sees: m.Sees}
	if m.Relay.Log != 0 {
		// The write had this age when the reply was created, and the probe was sent before that: so the write may look
		// older than it is, but never younger.
		answer.Relay = m.Relay
		answer.Relay.Anchor = asked.At.Add(-m.RelayAge)
	}
	if m.Unchanged {
		// The statement that the probe named, which differs from the known one if another answer came in between.
		if answer.Statement = asked.Held; asked.Held == nil {
			e.refuse(refusedMalformed, "evidence packet refused: a reply confirms a statement that was not asked for", slog.String("peer", p.addr.Name))
			return
		}
	}
	if s := answer.Statement; s != nil {
		answer.Clock = wire.ReadingOf(m.Clock, s.Boot)
	}
	if s := answer.Statement; s != nil && s.RosterDigest == e.cfg.Roster.Digest && s.RosterEpoch == e.cfg.Roster.Epoch {
		// The receiver of the answer may already use another roster than this instance.
		answer.Sees = s.Seen.Has(e.cfg.Roster.Self)
	}
	e.count.answers.add(1)
	contact := m.Sight == netgossip.SightSeen
	if answer.Statement != nil {
		contact = answer.Sees
	}
	e.schedule.Answered(p.Peer, asked, contact, now)
	p.owing.Store(int64(p.Asked()))
	if e.cfg.Doubts != nil {
		e.cfg.Doubts.answered(e, p.Index, asked.At, p.boot(answer.Statement), &m, at)
	}
	if answer.Statement != nil {
		p.Tell(asked.At)
		e.rejoin.leaving[p.Index].Store(answer.Statement.Stopping)
	}
	if m.Statement != nil && asked.At == p.Proven() { // not overtaken by a later answer
		p.Known, p.Digest = m.Statement, m.Digest
	}
	e.takePiece(p, m.Piece, now)
	e.gate.pass(func() { e.cfg.Sink.Answered(answer) })
	e.rejoin.noteReached(p.Index)
}

func (e *evidence) refuse(r refusal, msg string, attrs ...slog.Attr) {
	e.count.refused[r].add(1)
	e.journal.warn(string(r)+" packet", msg, attrs...)
}
