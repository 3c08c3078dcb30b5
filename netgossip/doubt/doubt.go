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
	// Least is the smallest group with doubts: in smaller groups memberlist is as quick.
	Least = 9
	// voices is the number of members that must miss a peer, each by its own probes: two of them may be faulty or lie.
	voices = 3
	// watchers is the number of members that look at a peer that another member misses: three must miss it, so two may
	// be lost or lie.
	watchers = 5
	// callers is the number of members that must call before all members look: one lying member must not be enough.
	callers = 2
	// answered is the number of members that ask a watcher and get its result: the others hear the calls. Up to twenty
	// members notice a stall.
	answered = 3
	// measured is the number of probes that must have been answered or missed before a node knows the loss rate of its
	// networks.
	measured = 32
	// findings is the number of silent peers about which a node may ask watchers within findTimeouts. If many peers are
	// silent, many nodes find them.
	findings = 5
	// looksAtOnce bounds the peers that a node looks at. In larger groups the bound is one in looksShare, since so many
	// may be gone at once without being a mass: all members of 1000 can look at a tenth of the group.
	looksAtOnce, looksShare = 64, 8
	// massShare bounds the missed peers: a node that misses more than one in massShare peers, and more than findings,
	// sends no words.
	massShare = 6
	// asksBurst and asksPerSecond bound the looks that one member may request of this node: they are more than an
	// honest member requests.
	asksBurst, asksPerSecond = 16, 8

	// lossy and veryLossy are shares of late probes above which this node looks, and repeats its words, more often.
	lossy, veryLossy = 0.02, 0.15

	// The highest probabilities that the silence is only packet loss of a peer that is there: askChance when watchers
	// are asked, firmChance when a member gives its firm word.
	askChance, firmChance = 0.02, 1e-4
)

// The times, in EvidenceTimeouts: they scale with the profile.
const (
	windowTimeouts = 7.75 // the silence that this node observes before its firm word: 1.55 s, because a stall looks like a crash
	callTimeouts   = 2.5  // how long before that all members are called on to look: 0.5 s
	yieldTimeouts  = 0.25 // how much later than the first two watchers other members call: 0.05 s
	lookTimeouts   = 2    // how long a node's own look lasts before it publishes: 0.4 s
	wellTimeouts   = 2.5  // a node whose latest answer is no older is well: 0.5 s
	deafTimeouts   = 3.5  // a node that has probed and had no answer for this long is deaf: 0.7 s
	liveTimeouts   = 5    // a network without any answer for this long does not count: 1 s
	jumpTimeouts   = 2.5  // a node that did nothing for this long was frozen: 0.5 s
	moreTimeouts   = 6    // when a finder asks members other than the watchers, too: 1.2 s
	findTimeouts   = 12.5 // the window in which findings are counted: 2.5 s
	lateTimeouts   = 0.75 // when an unanswered probe counts as missed: 0.15 s
	quickTimeouts  = 0.15 // when a look on another network counts as missed, for the question to the watchers: 0.03 s
)

// relapse is the time for which the window is doubled for a peer that came back, with the same boot, after a LEFT by
// doubt.
const relapse = 10 * time.Minute

// Config holds the settings of a Core.
type Config struct {
	Roster   *roster.Roster
	Networks int
	Policy   netgossip.Policy
	Params   netgossip.Params
	Rand     *rand.Rand // the only source of randomness
}

// Core holds the doubts of one node. One goroutine may use it at a time.
type Core struct {
	cfg    Config
	size   int
	self   int
	needed int // networks on which a peer must answer
	rand   *rand.Rand

	peers   map[int]*peer // peers that are in doubt, or LEFT
	missed  int           // how many of them this node misses
	looked  int           // how many of them this node has looked at
	own     int           // how many of them this node has found itself, see many
	boots   []uint64      // by peer, as it last stated; 0: not known
	nets    []network
	loss    loss
	called  boottime.Instant // the latest call of any method
	floor   boottime.Instant // silences from before this moment do not count: this node was frozen, or deaf
	rtt     time.Duration
	mute    boottime.Instant // first probe of any peer since the latest answer that was in time; zero: none
	checked boottime.Instant // when another peer may be looked at next, to check this node's own health

	found []boottime.Instant // findings within findTimeouts
	asks  map[int]*bucket    // by asking member
	words bucket             // budget for the words that this node broadcasts

	relapses map[int]boottime.Instant // the end of the time in which a peer's window is twice as long

	left    map[int]boottime.Instant // peers published as LEFT by doubt, with the start of their silence to this node
	changed bool
	fx      Effects
}

// network holds what is known about one network of the node.
type network struct {
	live  boottime.Instant // arrival of the latest answer
	heard boottime.Instant // arrival of the latest answer that was in time
	// proven holds, by peer, the start of the latest answered probe.
	proven []boottime.Instant
}

// Effects holds the work for the owner. The slices are valid until the next call of any method.
type Effects struct {
	Looks   []Look
	Words   []Outgoing
	Changed bool // the result of Left has changed
}

// Look is a probe that has to be sent now.
type Look struct{ Network, Peer int }

// Outgoing is a word and its receivers.
type Outgoing struct {
	Word     Word
	To       roster.Set // with Everyone: the members that get it first
	Everyone bool
	Copies   int // 1: sent once, on one network, see Core.Way; otherwise sent this often on each network, because packets are lost
}

// New returns a Core without doubts.
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

// quick returns the time after which a look counts as missed, for the question to the watchers. A few round trips are
// enough: if the answer is only slow, this costs no more than a few probes.
func (c *Core) quick() time.Duration {
	return min(c.times(lateTimeouts), max(c.times(quickTimeouts), 3*c.rtt))
}

// window returns how long a peer must have been silent to a member before the member gives its firm word.
func (c *Core) window(peer int, now boottime.Instant) time.Duration {
	w := c.times(windowTimeouts)
	if now < c.relapses[peer] {
		w *= 2
	}
	return w
}

// awake reports whether this node may have doubts at all.
func (c *Core) awake() bool { return c.size >= Least && c.loss.known() }

// Restart starts all silences that are not published again: until now, answers were not recorded.
func (c *Core) Restart(now boottime.Instant) {
	c.called, c.mute = max(c.called, now), 0
	c.restart(now)
}

// beat records that the node runs. If there was no beat for a while, the node was frozen: its timers fire before it has
// read the packets that came in the meantime, so the recorded silences do not count.
func (c *Core) beat(now boottime.Instant) {
	if now.Sub(c.called) >= c.times(jumpTimeouts) {
		c.restart(now)
	}
	c.called = max(c.called, now)
}

// restart starts all silences that are not published again.
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

// set records whether this node misses a peer.
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

// rest removes a peer that is LEFT from the counts that bound the doubts about others.
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

// heard returns when the latest answer of any peer came, on any network.
func (c *Core) heard() (at boottime.Instant) {
	for _, n := range c.nets {
		at = max(at, n.heard)
	}
	return at
}

// reached returns the latest instant at which a peer was reachable by the starts of answered probes, on as many
// networks as the policy asks for.
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

// Way returns the network for a word to a member that is sent only once: among the networks on which any peer has
// answered a moment ago, the one with this member's latest answer; -1: there is none.
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

// live reports whether any peer has answered on a network a moment ago.
func (c *Core) live(k int, now boottime.Instant) bool {
	return c.nets[k].live != 0 && now.Sub(c.nets[k].live) < c.times(liveTimeouts)
}

// Closed records the end of a probe that counts for the loss rate: late reports that its first try was not answered in
// time.
func (c *Core) Closed(late bool) { c.loss.add(late) }

// Late records that a peer's answer to a probe of an instant is overdue. This begins a doubt. For a peer that was
// probed in a sweep it does so only if packets are hardly ever lost: otherwise many peers are late in every sweep.
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

// Probed records that a probe was sent to a peer.
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

// Answered records that a peer answered a probe of an instant; boot is the peer's boot, 0: not known.
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

// deaf starts all silences again if no peer has answered for long: then this node itself is the cause.
func (c *Core) deaf(now boottime.Instant) {
	limit := now.Add(-c.times(deafTimeouts))
	if c.mute != 0 && c.mute <= limit && c.floor <= limit {
		c.restart(now)
	}
}

func (c *Core) valid(k, p int) bool {
	return k >= 0 && k < len(c.nets) && p >= 0 && p < c.size && p != c.self
}

// peer returns the doubt about a peer, and creates it if there was none.
func (c *Core) peer(p int, now boottime.Instant) *peer {
	d := c.peers[p]
	if d == nil {
		d = &peer{index: p, nets: make([]silence, len(c.nets)), began: now}
		c.peers[p] = d
	}
	return d
}

// Left returns the peers that this node publishes as LEFT by doubt, with the start of their silence. The map belongs to
// the Core.
func (c *Core) Left() map[int]boottime.Instant { return c.left }

// Recall adopts a peer that is LEFT from the Core before this one, which used another roster.
func (c *Core) Recall(p int, since, now boottime.Instant) {
	if c.valid(0, p) {
		d := c.peer(p, now)
		c.left[p], c.changed, d.wake = since, true, boottime.Never
		for k := range c.nets {
			d.probed(k, since)
		}
	}
}

// Take returns the work for the owner.
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

// chance returns the probability that so many probes of a peer that is there stay unanswered.
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
