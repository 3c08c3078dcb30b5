package agent

import (
	"sync"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/members"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/keeper"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// mailbox collects the reports of the adapters for the loop. Its size is limited by networks x members: for each member
// on each network it keeps only the newest report of a kind. Adding a report takes a mutex for a few instructions and
// never blocks, so adapters may do so under their own locks.
type mailbox struct {
	wake boottime.Wake // something is in the box

	mu     sync.Mutex
	b      batch
	roster *roster.Roster // whose indices number the peers
}

// batch is the content of a mailbox.
type batch struct {
	peers []peerReport // [network*members+peer]
	dirty []int        // indices into peers that hold something

	links     []linkReport
	linkDirty bool
	vouched   []boottime.Instant   // per network; zero: no news
	silent    *[]netgossip.Silence // nil: no news

	completions []diskquorum.Completion
	locked      []lunLocked
	lun         []keeper.Opened
	leases      []leasequorum.Completion
	api         *apiReport
	disarm      map[string]string // why, by source; "": no longer
	feeder      *wdt.State
	alone       bool // no other agent of this node runs
	fatal       error
	lists       []members.List   // the lists that the source of lists shows
	handed      []*roster.Roster // lists that peers handed over, at most one per request on a network
	rosterSaved []error          // outcomes of storing lists
	termsSaved  []termsSaved
	words       []*word  // reported deaths
	orders      []*order // to other nodes
}

// lunLocked is the outcome of a request for a slot lock.
type lunLocked struct {
	device int
	err    error
}

type peerReport struct {
	queued  bool
	answer  netgossip.Answer // SentAt zero: none
	heard   boottime.Instant
	changed boottime.Instant // of alive; zero: no change
	alive   bool
	missed  boottime.Instant // since when probes are missed; zero: none is
	void    bool             // of missed
}

type linkReport struct{ changed, up bool }

type apiReport struct {
	reachable bool
	at        boottime.Instant
}

func newMailbox(networks int, r *roster.Roster) *mailbox {
	return &mailbox{wake: boottime.NewWake(), b: newBatch(networks, r.Size()), roster: r}
}

// renumber empties the box, and numbers peers by another roster from now on.
func (m *mailbox) renumber(networks int, to *roster.Roster) batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.b
	m.b, m.roster = newBatch(networks, to.Size()), to
	return old
}

func newBatch(networks, members int) batch {
	return batch{
		peers: make([]peerReport, networks*members), dirty: make([]int, 0, networks*members),
		links: make([]linkReport, networks), vouched: make([]boottime.Instant, networks), disarm: map[string]string{},
	}
}

// put runs f on the content and wakes the loop.
func (m *mailbox) put(f func(*batch)) {
	m.mu.Lock()
	f(&m.b)
	m.mu.Unlock()
	m.wake.Signal()
}

// take swaps the content for the empty batch into.
func (m *mailbox) take(into *batch) {
	m.mu.Lock()
	m.b, *into = *into, m.b
	m.mu.Unlock()
}

// reset empties a batch that has been handled, keeping its memory.
func (b *batch) reset() {
	for _, i := range b.dirty {
		b.peers[i] = peerReport{}
	}
	b.dirty = b.dirty[:0]
	clear(b.links)
	clear(b.vouched)
	b.linkDirty, b.silent = false, nil
	clear(b.completions)
	b.completions = b.completions[:0]
	b.locked = b.locked[:0]
	clear(b.leases)
	b.leases = b.leases[:0]
	b.lun = b.lun[:0]
	b.lists, b.handed, b.rosterSaved, b.termsSaved, b.words, b.orders = nil, nil, nil, nil, nil, nil
	b.api, b.feeder, b.fatal, b.alone = nil, nil, nil, false
	clear(b.disarm)
}

// sink is the gossip's way into the mailbox (gossip.Reports).
type sink struct {
	box    *mailbox
	roster *roster.Roster // of the instance
}

func (s sink) peer(network, peer int, f func(r *peerReport, peer int)) {
	s.box.mu.Lock()
	s.locked(network, peer, f)
	s.box.mu.Unlock()
	s.box.wake.Signal()
}

// locked fills in a report. The box may number the peers by a later roster than the instance does; a peer that is not
// on that roster no longer matters.
func (s sink) locked(network, peer int, f func(r *peerReport, peer int)) {
	if s.roster != s.box.roster {
		var ok bool
		if peer, ok = s.box.roster.Index(s.roster.Name(peer)); !ok {
			return
		}
	}
	i := network*s.box.roster.Size() + peer
	r := &s.box.b.peers[i]
	if !r.queued {
		r.queued = true
		s.box.b.dirty = append(s.box.b.dirty, i)
	}
	f(r, peer)
}

func (s sink) MemberChanged(network, peer int, alive bool, at boottime.Instant) {
	s.peer(network, peer, func(r *peerReport, _ int) { r.alive, r.changed = alive, at })
}

func (s sink) Answered(a netgossip.Answer) {
	s.peer(a.Network, a.Peer, func(r *peerReport, peer int) {
		if a.SentAt > r.answer.SentAt {
			r.answer = a
			r.answer.Peer = peer
		}
	})
}

func (s sink) Vouched(network int, at boottime.Instant) {
	s.box.put(func(b *batch) { b.vouched[network] = max(b.vouched[network], at) })
}

func (s sink) Missed(network, peer int, since boottime.Instant, void bool) {
	s.peer(network, peer, func(r *peerReport, _ int) { r.missed, r.void = max(r.missed, since), r.void || void })
}

// Heard implements gossip.Reports. It does not wake the loop: a sign of life in one direction decides nothing.
func (s sink) Heard(network, peer int, at boottime.Instant) {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	s.locked(network, peer, func(r *peerReport, _ int) { r.heard = max(r.heard, at) })
}

func (s sink) Silent(peers []netgossip.Silence) {
	s.box.put(func(b *batch) {
		known := make([]netgossip.Silence, 0, len(peers))
		for _, x := range peers {
			p, ok := x.Peer, true
			if s.roster != s.box.roster {
				p, ok = s.box.roster.Index(s.roster.Name(x.Peer))
			}
			if ok {
				known = append(known, netgossip.Silence{Peer: p, Since: x.Since})
			}
		}
		b.silent = &known
	})
}
