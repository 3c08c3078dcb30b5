package doubt

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	// Least is the smallest group with doubts: in smaller ones memberlist is as quick.
	Least = 9
	// voices is how many members must miss a peer, each by its own probes: one may be sick or lie, and one more besides.
	voices = 3
	// watchers is how many members look at a peer that somebody misses: three must miss it, so two may be lost or lie.
	watchers = 5
	// callers is how many members must call on everybody to look: one that lies must not be able to.
	callers = 2
	// answered is how many of the members that ask a watcher hear what it found: the others hear the calls. Twenty
	// members find a stall.
	answered = 3
	// measured is how many probes must have come to an end before a node knows the loss of its networks.
	measured = 32
	// findings is how many silent peers a node asks watchers about within findWindow. If many peers are silent, many
	// nodes find them.
	findings = 5
	// looksAtOnce bounds the peers that a node looks at. In larger groups one in looksShare is the bound, since so many
	// may be gone at once without being a mass: all look at a tenth of 1000.
	looksAtOnce, looksShare = 64, 8
	// massShare: a node that misses more than one in this many, and more than findings, says nothing.
	massShare = 6
	// asksBurst and asksPerSecond bound what one member may make this node look at: more than an honest one asks.
	asksBurst, asksPerSecond = 16, 8

	// lossy and veryLossy are shares of late probes above which this node looks, and says what it has to say, more often.
	lossy, veryLossy = 0.02, 0.15

	// The probabilities with which the silence of a peer that is there may be chance: when watchers are asked, and when a
	// member gives its firm word.
	askChance, firmChance = 0.02, 1e-4
)

// The times, in EvidenceTimeouts: they scale with the profile.
const (
	windowTimeouts = 7.75 // own silence before the firm word: 1.55 s, because of stalls, which look like a crash
	callTimeouts   = 2.5  // how long before that everybody is called on to look: 0.5 s
	yieldTimeouts  = 0.25 // how much later members other than the first two watchers call: 0.05 s
	lookTimeouts   = 2    // how long a node's own look lasts before it publishes: 0.4 s
	wellTimeouts   = 2.5  // a node that had an answer so recently is well: 0.5 s
	deafTimeouts   = 3.5  // a node that has asked and had no answer for this long is not: 0.7 s
	liveTimeouts   = 5    // a network without any answer for this long does not count: 1 s
	jumpTimeouts   = 2.5  // a node that did nothing for this long was frozen: 0.5 s
	moreTimeouts   = 6    // after that a finder asks other members than the watchers: 1.2 s
	findTimeouts   = 12.5 // in which findings are counted: 2.5 s
	lateTimeouts   = 0.75 // after which an unanswered probe is missed: 0.15 s
	quickTimeouts  = 0.15 // after which a look on another network is missed, for the question to the watchers: 0.03 s
)

// relapse is how long a peer that came back from a LEFT by doubt, with the same boot, gets twice the window.
const relapse = 10 * time.Minute

// Config is what a Core is made of.
type Config struct {
	Roster   *roster.Roster
	Networks int
	Policy   netgossip.Policy
	Params   netgossip.Params
	Rand     *rand.Rand // the only source of chance
}

// Core has the doubts of one node. One goroutine may use it at a time.
type Core struct {
	cfg    Config
	size   int
	self   int
	needed int // networks on which a peer must answer
	rand   *rand.Rand

	peers   map[int]*peer // in doubt, or LEFT
	missed  int           // how many of them this node misses
	looked  int           // how many of them this node has looked at
	own     int           // how many of them this node has found itself, see many
	boots   []uint64      // by peer, as it said last; 0: not known
	nets    []network
	loss    loss
	called  boottime.Instant // the latest call of any method
	floor   boottime.Instant // this node notes no silence from before: until then it was frozen, or deaf
	rtt     time.Duration
	mute    boottime.Instant // first probe of anybody since the latest answer that was in time; zero: none
	checked boottime.Instant // when somebody else may be looked at next, for this node's own health

	found []boottime.Instant // findings within findTimeouts
	asks  map[int]*bucket    // by asking member
	words bucket             // that this node broadcasts

	relapses map[int]boottime.Instant // up to when a peer's window is twice as long

	left    map[int]boottime.Instant // published by doubt, and the start of this node's silence
	changed bool
	fx      Effects
}

// network is what is known of one network of the node.
type network struct {
	live  boottime.Instant // arrival of the latest answer
	heard boottime.Instant // of the latest that was in time
	// proven are the starts of the peers' latest answered probes.
	proven []boottime.Instant
}

// Effects are what the owner has to do. The slices are good until the next call of any method.
type Effects struct {
	Looks   []Look
	Words   []Outgoing
	Changed bool // what Left returns has changed
}

// Look is a probe that is wanted now.
type Look struct{ Network, Peer int }

// Outgoing is a word, and to whom.
type Outgoing struct {
	Word     Word
	To       roster.Set // with Everyone: who is told first
	Everyone bool
	Copies   int // 1: it goes on one network, see Core.Way; else this often on each, because packets are lost
}

// New returns a Core that doubts nobody.
func New(cfg Config, now boottime.Instant) *Core {
	n := cfg.Roster.Size()
	nets := make([]network, cfg.Networks)
	for k := range nets {
		nets[k].proven = make([]boottime.Instant, n)
	}
	return &Core{
		cfg: cfg, size: n, self: cfg.Roster.Self, needed: cfg.Policy.Needed(cfg.Networks), rand: cfg.Rand,
		peers: map[int]*peer{}, boots: make([]uint64, n), nets: nets, called: now, floor: now,
		asks: map[int]*bucket{}, words: newBucket(2.4*float64(n)+20, 0.12*float64(n), now),
		relapses: map[int]boottime.Instant{}, left: map[int]boottime.Instant{},
	}
}

func (c *Core) times(timeouts float64) time.Duration {
	return time.Duration(timeouts * float64(c.cfg.Params.EvidenceTimeout))
}

// quick is the time after which a look is missed, for the question to the watchers: some round trips, because an answer
// that is only slow costs no more than a few probes.
func (c *Core) quick() time.Duration {
	return min(c.times(lateTimeouts), max(c.times(quickTimeouts), 3*c.rtt))
}

// window is how long a peer must have been silent to a member before the member gives its firm word.
func (c *Core) window(peer int, now boottime.Instant) time.Duration {
	w := c.times(windowTimeouts)
	if now < c.relapses[peer] {
		w *= 2
	}
	return w
}

// awake reports whether this node may have doubts at all.
func (c *Core) awake() bool { return c.size >= Least && c.loss.known() }

// Restart begins again all silences that are not published: until now nobody noted who answers.
func (c *Core) Restart(now boottime.Instant) {
	c.called, c.mute = max(c.called, now), 0
	c.restart(now)
}

// beat notes that the node runs. If there was no beat for a while the node was frozen: its timers fire before it has
// read what came meanwhile, so the silences that it has noted are worth nothing.
func (c *Core) beat(now boottime.Instant) {
	if now.Sub(c.called) >= c.times(jumpTimeouts) {
		c.restart(now)
	}
	c.called = max(c.called, now)
}

// restart begins again all silences that are not published.
func (c *Core) restart(now boottime.Instant) {
	c.floor = now
	for p, d := range c.peers {
		if _, left := c.left[p]; left {
			continue
		}
		c.set(d, false)
		if d.looks > 0 {
			c.looked--
		}
		d.restart()
		d.wake = c.wakes(d, now)
	}
}

// set notes whether this node misses a peer.
func (c *Core) set(d *peer, missed bool) {
	if !missed && d.own {
		d.own = false
		c.own--
	}
	if d.missed != missed {
		if d.missed = missed; missed {
			c.missed++
		} else {
			c.missed--
		}
	}
}

// rest no longer counts a peer that is LEFT in the bounds on doubts about others.
func (c *Core) rest(d *peer) {
	c.set(d, false)
	if d.looks > 0 {
		c.looked--
	}
	d.looks, d.wake = 0, boottime.Never
}

func (c *Core) forget(d *peer) {
	c.set(d, false)
	if d.looks > 0 {
		c.looked--
	}
	delete(c.peers, d.index)
}

// heard is the latest answer of anybody, on any network.
func (c *Core) heard() (at boottime.Instant) {
	for _, n := range c.nets {
		at = max(at, n.heard)
	}
	return at
}

// reached is the start of the latest probes by which a peer was reachable: on as many networks as that takes.
func (c *Core) reached(p int) boottime.Instant {
	var at []boottime.Instant
	for _, n := range c.nets {
		at = append(at, n.proven[p])
	}
	slices.Sort(at)
	if c.needed > len(at) {
		return 0
	}
	return at[len(at)-c.needed]
}

// Way is the network on which a member is told something when once is enough: of those on which somebody has answered
// just now, the one on which this member answered last. It is -1 if there is none.
func (c *Core) Way(p int, now boottime.Instant) int {
	best := -1
	for i := range c.nets {
		k := (i + p + c.self) % len(c.nets)
		if c.live(k, now) && (best < 0 || c.nets[k].proven[p] > c.nets[best].proven[p]) {
			best = k
		}
	}
	return best
}

// live reports whether somebody has answered on a network just now.
func (c *Core) live(k int, now boottime.Instant) bool {
	return c.nets[k].live != 0 && now.Sub(c.nets[k].live) < c.times(liveTimeouts)
}

// Closed notes the end of a probe that stands for its network: late says that its first try was not answered in time.
func (c *Core) Closed(late bool) { c.loss.add(late) }

// Late notes that a peer owes an answer to a probe of an instant. This begins a doubt; for a peer that was asked in a
// sweep, only where packets are hardly ever lost: elsewhere many are late in every sweep.
func (c *Core) Late(k, p int, since boottime.Instant, swept bool, now boottime.Instant) {
	c.beat(now)
	if !c.valid(k, p) || !c.awake() || now.Sub(since) > c.cfg.Params.EvidenceMaxAge {
		return
	}
	d := c.peer(p, now)
	d.sampled = d.sampled || !swept
	d.finds = d.finds || !swept || c.loss.share <= lossy
	d.probed(k, max(since, c.floor))
	c.settle(d, now)
}

// Probed notes that a probe was sent to a peer.
func (c *Core) Probed(k, p int, now boottime.Instant) {
	c.beat(now)
	if c.mute == 0 {
		c.mute = now
	}
	if d := c.peers[p]; d != nil && c.valid(k, p) {
		d.probed(k, now)
		d.wake = min(d.wake, c.wakes(d, now))
	}
}

// Answered notes that an answer to a probe of an instant came from a peer; boot is the one that the peer runs in, 0:
// not known.
func (c *Core) Answered(k, p int, sentAt boottime.Instant, boot uint64, now boottime.Instant) {
	c.beat(now)
	if !c.valid(k, p) {
		return
	}
	c.nets[k].live = now
	c.nets[k].proven[p] = max(c.nets[k].proven[p], sentAt)
	if trip := now.Sub(sentAt); trip < c.times(lookTimeouts) {
		c.deaf(now)
		c.nets[k].heard, c.mute = now, 0
		c.rtt += (trip - c.rtt) / 16
	}
	before := c.boots[p]
	if boot != 0 {
		c.boots[p] = boot
	}
	if before != c.boots[p] {
		delete(c.relapses, p)
	}
	d := c.peers[p]
	if d == nil {
		return
	}
	d.answered(k)
	if silent, _, _ := c.silence(d, now, 0); silent {
		return
	}
	c.forget(d)
	if _, left := c.left[p]; left {
		delete(c.left, p)
		if c.changed = true; before == c.boots[p] {
			c.relapses[p] = now.Add(relapse)
		}
	}
}

// deaf begins all silences again if nobody has answered for long: it is this node that is sick.
func (c *Core) deaf(now boottime.Instant) {
	limit := now.Add(-c.times(deafTimeouts))
	if c.mute != 0 && c.mute <= limit && c.floor <= limit {
		c.restart(now)
	}
}

func (c *Core) valid(k, p int) bool {
	return k >= 0 && k < len(c.nets) && p >= 0 && p < c.size && p != c.self
}

// peer returns the doubt about a peer, a new one if there was none.
func (c *Core) peer(p int, now boottime.Instant) *peer {
	d := c.peers[p]
	if d == nil {
		d = &peer{index: p, nets: make([]silence, len(c.nets)), began: now}
		c.peers[p] = d
	}
	return d
}

// Left returns whom this node publishes as LEFT by doubt, with the start of its silence. The map is the Core's.
func (c *Core) Left() map[int]boottime.Instant { return c.left }

// Recall takes over who is LEFT from the Core before this one, which used another roster.
func (c *Core) Recall(p int, since, now boottime.Instant) {
	if c.valid(0, p) {
		d := c.peer(p, now)
		c.left[p], c.changed, d.wake = since, true, boottime.Never
		for k := range c.nets {
			d.probed(k, since)
		}
	}
}

// Take returns what is to be done.
func (c *Core) Take() Effects {
	fx := c.fx
	fx.Changed = c.changed
	c.changed = false
	c.fx.Looks, c.fx.Words = c.fx.Looks[:0], c.fx.Words[:0]
	return fx
}

// loss measures the share of probes that were not answered in time.
type loss struct {
	share float64
	n     int
}

func (l *loss) known() bool { return l.n >= measured }

func (l *loss) add(late bool) {
	l.n = min(l.n+1, 64)
	x := 0.0
	if late {
		x = 1
	}
	l.share += (x - l.share) / float64(l.n)
}

// chance is the probability that so many probes of a peer that is there stay unanswered.
func (l *loss) chance(missed int) float64 {
	return math.Pow(max(0.01, l.share), float64(missed))
}

type bucket struct {
	tokens, most, perSecond float64
	at                      boottime.Instant
}

func newBucket(most, perSecond float64, now boottime.Instant) bucket {
	return bucket{most, most, perSecond, now}
}

func (b *bucket) take(n float64, now boottime.Instant) bool {
	b.tokens = min(b.most, b.tokens+b.perSecond*max(0, now.Sub(b.at).Seconds()))
	b.at = now
	if b.tokens < n {
		return false
	}
	b.tokens -= n
	return true
}
