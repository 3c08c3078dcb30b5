package watchdog

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// lun is the LUN as a tie-breaker, together with its slots, which no other tie-breaker has. It exists before the LUN is
// opened, but cannot be used until then.
type lun struct {
	arbiter *diskquorum.Arbiter // nil until the LUN was opened
	input   diskquorum.Input
	latest  *diskquorum.Output // of the latest step; nil: there was none
	closed  tie.Output
}

// Name implements tie.Breaker.
func (l *lun) Name() tie.Name {
	n := tie.Name{Setting: "lun", Status: "lun"}
	if l.arbiter != nil {
		n.Log = l.arbiter.Log()
	}
	return n
}

// SetRoster implements tie.Breaker.
func (l *lun) SetRoster(directory *roster.Roster, expected int) {
	if l.arbiter != nil {
		l.arbiter.SetRoster(directory, expected)
	}
}

// Step implements tie.Breaker.
func (l *lun) Step(now boottime.Instant, in *tie.Input) *tie.Output {
	if l.arbiter == nil {
		l.closed = tie.Output{Split: tie.Unavailable, Why: "the LUN is not open", Wake: boottime.Never}
		return &l.closed
	}
	l.input.Input = *in
	l.latest = l.arbiter.Step(now, &l.input)
	return &l.latest.Output
}

// Grant implements tie.Breaker.
func (l *lun) Grant(now boottime.Instant) (g tie.Grant, ok bool) {
	if l.arbiter == nil {
		return g, false
	}
	st := l.arbiter.Status(now)
	slices.Sort(st.HolderNames)
	return tie.Grant{Instance: st.Instance, Holders: st.HolderNames, Held: st.Held, For: st.HeldFor, Pending: st.Pending}, true
}

// Arbiter gives the LUN's state for display; nil until the LUN was opened.
func (c *Core) Arbiter() *diskquorum.Arbiter { return c.lun.arbiter }

// LUNOpened hands over the arbiter once the LUN could be opened for the first time. There is none together with
// another tie-breaker, see BreakTiesBy.
func (c *Core) LUNOpened(a *diskquorum.Arbiter) {
	c.lun.arbiter, c.proof.slots = a, a
	if c.sentence.condemned {
		a.Condemn()
	}
	a.SetRoster(c.cfg.Roster, c.rosters.base().Size())
}

// IOCompleted takes the end of a LUN operation.
func (c *Core) IOCompleted(now boottime.Instant, done *diskquorum.Completion) {
	if c.lun.arbiter != nil {
		c.lun.arbiter.Complete(now, done)
	}
}

// SlotLocked takes the outcome of the lock asked for in Effects.Lock, for one device.
func (c *Core) SlotLocked(now boottime.Instant, device int, err error) {
	if c.lun.arbiter != nil {
		c.lun.arbiter.Locked(now, device, err)
	}
}

// LUNMode is lun.mode: when the LUN has a say.
type LUNMode uint8

const (
	LUNTieBreaker LUNMode = iota // at an equal split only
	LUNOr                        // network or LUN: it is one more network for quorum, see voices
	LUNAnd                       // network and LUN: a node that alone lost the LUN stops
)

// lunSense is what the LUN says besides the verdict on a tie.
type lunSense struct {
	missing boottime.Instant // since when the LUN is lost for this node, but not for a quorum in contact; zero: it is not
	lost    bool             // lost for so long that an outage for all would have shown
}

// followLUN distinguishes a loss of the LUN for this node from an outage for all. The peers in contact say whether they
// have it. If as many as a quorum do, this node is the one that lost it; if fewer do, fencing all others would leave no
// quorum, so nobody is fenced. The time allows for peers that have not noticed the same outage, or not said so, yet.
// followLUN works with one list of members only: while two are in force the network alone decides.
func (c *Core) followLUN(now boottime.Instant) {
	s := &c.sense
	if !c.rosters.settled() || c.cfg.LUNMode != LUNAnd || c.healthy || c.healthyPeers() < c.rosters.quorum {
		s.missing, s.lost = 0, false
		return
	}
	if s.missing == 0 {
		s.missing = now
	}
	end := s.missing.Add(c.cfg.LUNGrace)
	if s.lost = now >= end; !s.lost {
		c.fx.Wake = min(c.fx.Wake, end)
	}
}

func (c *Core) healthyPeers() int {
	n := 0
	for _, st := range c.merger.Said(c.view.Counted, 0) {
		if st.LUNHealthy {
			n++
		}
	}
	return n
}

// LUNGrace is the time after which peers in contact would have said that they have lost the LUN too: how long a
// silent LUN still counts as healthy, the timeout of an I/O, and the age of their statement.
func LUNGrace(heartbeat, ioTimeout, maxAge time.Duration) time.Duration {
	return 3*heartbeat + 2*ioTimeout + maxAge
}

// holding is what a node below quorum relies on while no part of the group can live (lease.md H1 to H5).
type holding struct {
	seen []boottime.Instant // by peer: the latest step that had it among the seen
	lost boottime.Instant   // when a majority was counted last

	heard     diskquorum.Hearing
	vacant    boottime.Instant // the end of the latest permission to hold,
	vacantAt  boottime.Instant // and when it was given
	excluded  bool             // the latest grant, as read since lost, names others that may live by it,
	overruled bool             // and that was so at some time in this outage
	ground    boottime.Instant // since when others have lived without this node, at each look; zero: none are known to
	lived     bool             // this node lived, in the step before
}

// healGrace is how long a permission to hold outlives the news that somebody lives again. When the networks come back,
// somebody is a majority that has not found this node yet: without healGrace the node would publish itself as LEFT for
// a moment. The grounds of the permission stay true for their time, so this does not affect a proof; the overlap with
// nodes that live is longer by healGrace.
const healGrace = 2 * time.Second

// hears reports whether this node reads on the LUN who lives: it is configured to, and the LUN is open.
func (c *Core) hears() bool {
	return (c.cfg.Hold || c.listens()) && c.lun.arbiter != nil
}

// Holds reports whether this node may hold by the LUN. Under another policy it is fed anyway.
func (c *Core) Holds() bool { return c.cfg.Hold && c.hears() && c.cfg.OnLoss == LossFence }

// settled is what the echo block says of this node's lists of members: that it uses one only, or, with LUNOr, that it
// knows no other either.
func (c *Core) settled() bool {
	if c.cfg.LUNMode == LUNOr {
		return c.rosters.noOther()
	}
	return c.rosters.oneList()
}

// lately are the members that may still count this node because it has seen them. They know it from this node's
// statements while it saw them, and for as long after that as evidence lasts (H2).
func (c *Core) lately(now boottime.Instant) (set roster.Set) {
	window := c.rosters.window()
	if c.listens() {
		window = max(window, c.cfg.Budget.Voices) // members that read on the LUN that this node sees them may count it
	}
	for p, at := range c.hold.seen {
		if at != 0 && now.Sub(at) <= window {
			set.Add(p)
		}
	}
	return set
}

// dated is D_lun: how long a dated word counts. It is not longer than what the horizon allows for (M4).
func (cfg *Config) dated() time.Duration {
	return cfg.MaxAge + cfg.Budget.Sampling + cfg.Arbitrate
}

func (c *Core) followHold(now boottime.Instant) {
	h := &c.hold
	seen := c.view.Seen
	if c.fx.Statement != nil {
		seen = seen.Union(c.fx.Statement.Seen) // this statement was the answer until now
	}
	for p := range seen.Union(c.sees()).All() {
		if p < len(h.seen) {
			h.seen[p] = now
		}
	}
	h.heard, h.excluded = diskquorum.Hearing{}, false
	if c.outcome != netgossip.Majority && c.hears() && c.rosters.oneList() {
		h.heard = c.lun.arbiter.Hear(now, c.lately(now), c.rosters.quorum, c.cfg.dated())
		h.excluded = c.lun.arbiter.Excluded(h.lost)
	}
	if !c.Holds() {
		h.heard.Vacant = 0
	}
	if c.outcome == netgossip.Majority {
		h.overruled = false
	} else {
		h.linger(now)
	}
	switch {
	case h.heard.Ground == 0:
		h.ground = 0
	case h.ground == 0:
		h.ground = now
	}
}

// asking reports whether this node may go on feeding while it asks (H4).
//
// Invariant: a node does not hold while others live by a decision that does not name it, or have given up that decision
// for a majority. A decision may end within seconds; that is not a reason for this node to be fed at the same time as
// they are. Once they say that they do not live, all ask again: the granted half may have come apart as well.
func (c *Core) asking() bool {
	return c.Holds() && c.rosters.oneList() && c.healthy && !(c.hold.overruled && c.hold.heard.Others)
}

// linger lets a permission outlive, by healGrace, the news that somebody lives again. A decision that names others
// ends it.
func (h *holding) linger(now boottime.Instant) {
	h.overruled = h.overruled || h.excluded
	until := min(h.vacant, h.vacantAt.Add(healGrace))
	switch {
	case h.heard.Vacant > now:
		h.vacant, h.vacantAt = h.heard.Vacant, now
	case until > now && !h.overruled:
		h.heard = diskquorum.Hearing{Vacant: until}
	}
}

// certain reports whether it is certain, by the others' own words, that they live without this node (H6).
//
// Invariant: neither silence makes it certain, nor what is true for a moment only. If an outage of all networks reaches
// this node first, the others live until their evidence has expired. So what they say has to be true for longer than
// that, in blocks dated later. A grant can be the last thing that a half did before it came apart, so all its holders
// have to live by it.
func (h *holding) certain(window time.Duration) bool {
	return h.ground != 0 && h.heard.Ground >= h.ground.Add(window)
}

// lives reports whether this node lives by a right of its own, and not by holding.
func (c *Core) lives(now boottime.Instant) bool {
	if c.sentence.condemned {
		return false
	}
	d := &c.fx.Decision
	return c.outcome == netgossip.Majority && c.view.QuorumUntil > now || d.Quorum && d.Action == Feed ||
		c.lun.arbiter != nil && c.lun.arbiter.Named()
}

// lapse is how late a step may be that renews an ending permission: the evidence was there in time. It is less than
// [settle], which is also part of the time that a claim covers.
const lapse = time.Second

// claimsBegin reports whether this node's claims of deaths begin again: if the node did not live (M1), or if that is
// unknown because it was stopped for longer than it was permitted to run (M2).
//
// Invariant: a claim covers only time in which its node lived without a gap. A node holds because most of the list
// say that they do not live, so no majority can have claimed its death by then.
func (c *Core) claimsBegin(now, permitted boottime.Instant) (again bool) {
	lives := c.lives(now)
	again = (c.cfg.Hold || c.cfg.LUNMode == LUNOr) && (c.cfg.LUN || c.lun.arbiter != nil) && (!lives || c.hold.lived && now >= permitted.Add(lapse))
	c.hold.lived = lives
	return again
}

// testify says on the LUN whether this node lives, while a member is missing that may have to know. If the LUN counts
// like a network, testify always does so: evidence one heartbeat later would be too late. A planned stop does not end
// this before the guard is given up: the node holds until it can tell others.
func (c *Core) testify(now boottime.Instant) {
	if !c.hears() || c.stopping && c.release.done || !c.listens() && !c.sentence.condemned && c.rosters.expected.Minus(c.view.Counted).IsEmpty() {
		return
	}
	d := &c.fx.Decision
	out := c.lun.arbiter.Testify(now, &diskquorum.Testimony{
		Lives: c.hold.lived, Feeding: d.Action == Feed || d.Action == Hold, Holding: d.Action == Hold,
		Settled: c.settled(), Lately: c.lately(now), View: c.view.Counted, Seen: c.sees(), Sentence: c.sentence.timeout,
	})
	c.fx.Ops = out.Ops
	c.fx.Wake = min(c.fx.Wake, out.Wake)
}

// voices is the LUN as one more network for quorum (lun.mode: or; lease.md N1 to N6).
//
// Invariant: an echo block is believed for no longer than the horizon allows for (N4), it counts only if its writer
// saw this node when it composed the block (N2), and it is a sighting: nobody claims the writer's death for that time
// (N3). So the argument of Prover holds with the LUN as well as with the networks: a node that x counts by the LUN
// said, no longer than D_lun ago, that it sees x, and at that moment its claim of the death of x began again.
//
// LEFT relies on the networks alone: traffic must not go to a node that only the LUN reaches (N5).
type voices struct {
	words    []diskquorum.Voice // by member
	until    []boottime.Instant // by member: it is counted by the LUN until then; 0: it is not
	heard    roster.Set         // members that this node sees by the LUN
	networks netgossip.View     // what the networks alone show
	needed   bool               // the networks alone make no majority, but with the LUN there is one
}

func newVoices(size int) voices {
	return voices{words: make([]diskquorum.Voice, size), until: make([]boottime.Instant, size)}
}

// listens reports whether this node counts by the LUN: it is configured to, the horizon has room for it, and the LUN is
// open.
func (c *Core) listens() bool {
	return c.cfg.LUNMode == LUNOr && c.cfg.Budget.Voices > 0 && c.lun.arbiter != nil
}

func (c *Core) followVoices(now boottime.Instant) {
	v := &c.voices
	v.networks, v.heard, v.needed = c.view, roster.Set{}, false
	clear(v.until)
	// A node that is condemned, or does not know yet whether it is, counts nobody; a boot that is condemned is counted
	// by nobody (P2, P2', P5).
	if !c.listens() || c.apart() {
		return
	}
	one := c.rosters.noOther() // while one list is changed into another, only the networks count (N6)
	c.lun.arbiter.Listen(now, c.cfg.Budget.Voices, v.words)
	for p := range v.words {
		w := &v.words[p]
		if w.Until <= now || !c.rosters.expected.Has(p) || c.proof.hasEnded(p, w.Boot) {
			continue
		}
		v.heard.Add(p)
		if w.Mutual && one {
			v.until[p] = w.Until
		}
	}
	before := c.rosters.tally(c.view.Counted)
	c.merger.Extend(&c.view, now, c.rosters.quorum, v.until)
	v.needed = before != netgossip.Majority && c.rosters.tally(c.view.Counted) == netgossip.Majority
}

// sees are the members that this node names as seen on the LUN; none if it does not count by the LUN: then no member
// may count this node by the LUN either, because this node does not treat a block there as a sighting.
func (c *Core) sees() roster.Set {
	if !c.listens() || c.apart() {
		return roster.Set{}
	}
	return c.view.Seen.Union(c.voices.heard)
}

// ByLUN are the members that this node counts by the LUN, whatever the networks say of them.
func (c *Core) ByLUN() (members roster.Set) {
	for p, until := range c.voices.until {
		if c.view.Counted.Has(p) && until > c.stepped {
			members.Add(p)
		}
	}
	return members
}

// NetworkView is the view by the networks alone: the members that they reach. The probing uses it.
func (c *Core) NetworkView() netgossip.View { return c.voices.networks }
