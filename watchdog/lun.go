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

// Arbiter returns the LUN's arbiter, for display; nil until the LUN has been opened.
func (c *Core) Arbiter() *diskquorum.Arbiter { return c.lun.arbiter }

// LUNOpened hands over the arbiter after the LUN was opened for the first time. It must not be called if BreakTiesBy
// has set another tie-breaker.
func (c *Core) LUNOpened(a *diskquorum.Arbiter) {
	c.lun.arbiter, c.proof.slots = a, a
	if c.sentence.condemned {
		a.Condemn()
	}
	a.SetRoster(c.cfg.Roster, c.rosters.base().Size())
}

// IOCompleted handles the completion of a LUN operation.
func (c *Core) IOCompleted(now boottime.Instant, done *diskquorum.Completion) {
	if c.lun.arbiter != nil {
		c.lun.arbiter.Complete(now, done)
	}
}

// SlotLocked handles the outcome, on one device, of the lock that Effects.Lock asked for.
func (c *Core) SlotLocked(now boottime.Instant, device int, err error) {
	if c.lun.arbiter != nil {
		c.lun.arbiter.Locked(now, device, err)
	}
}

// LUNMode is lun.mode: when the LUN affects the decision.
type LUNMode uint8

const (
	LUNTieBreaker LUNMode = iota // at an equal split only
	LUNOr                        // network or LUN: it is one more network for quorum, see voices
	LUNAnd                       // network and LUN: a node that alone has lost the LUN is not fed any more
)

// lunSense holds what the LUN shows apart from the verdict on a tie.
type lunSense struct {
	missing boottime.Instant // since when this node has lost the LUN while a quorum in contact has it; zero: that is not so
	lost    bool             // lost for so long that an outage for all nodes would have become visible
}

// followLUN distinguishes a loss of the LUN on this node from an outage for all nodes. The peers in contact state
// whether they have the LUN. If at least a quorum of them has it, only this node has lost it. If fewer have it, fencing
// all nodes without it would leave no quorum, so no node is fenced. LUNGrace allows for peers that have not yet noticed
// the same outage, or not yet stated it. followLUN works with one list of members only: while two lists are in use, the
// network alone decides.
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

// LUNGrace returns the time after which peers in contact would have stated that they have lost the LUN, too. It is the
// sum of: how long a silent LUN still counts as healthy, the timeout of an I/O, and the age of their statements.
func LUNGrace(heartbeat, ioTimeout, maxAge time.Duration) time.Duration {
	return 3*heartbeat + 2*ioTimeout + maxAge
}

// holding is the state of a node below quorum that holds while no part of the group can live (lease.md H1 to H5).
type holding struct {
	seen []boottime.Instant // by peer: the latest step in which this node saw it
	lost boottime.Instant   // when a majority was last counted

	heard     diskquorum.Hearing
	vacant    boottime.Instant // the end of the latest permission to hold
	vacantAt  boottime.Instant // when that permission was given
	excluded  bool             // the latest grant, as read since lost, names others that may live by it
	overruled bool             // excluded was true at some time in this outage
	ground    boottime.Instant // since when each check has shown that others live without this node; zero: no such others are known
	lived     bool             // this node lived in the step before
}

// healGrace is how long a permission to hold outlives the first sign that others live again. When the networks come
// back, those others are a majority that has not yet found this node: without healGrace the node would publish itself
// as LEFT for a moment. The grounds of the permission stay true for their time, so this does not affect a proof. Only
// the overlap with nodes that live gets longer by healGrace.
const healGrace = 2 * time.Second

// hears reports whether this node reads on the LUN which nodes live: the configuration says so, and the LUN is open.
func (c *Core) hears() bool {
	return (c.cfg.Hold || c.listens()) && c.lun.arbiter != nil
}

// Holds reports whether this node may hold by the LUN. Under another policy its watchdog is fed anyway.
func (c *Core) Holds() bool { return c.cfg.Hold && c.hears() && c.cfg.OnLoss == LossFence }

// settled is stated in this node's echo block: the node uses only one list of members. With LUNOr it must not even know
// another list.
func (c *Core) settled() bool {
	if c.cfg.LUNMode == LUNOr {
		return c.rosters.noOther()
	}
	return c.rosters.oneList()
}

// lately returns the members that may still count this node because it has seen them. They count it by its statements
// from the time in which it saw them, for as long after that time as evidence lasts (H2).
func (c *Core) lately(now boottime.Instant) (set roster.Set) {
	window := c.rosters.window()
	if c.listens() {
		window = max(window, c.cfg.Budget.Voices) // members may also count this node because they read on the LUN that it sees them
	}
	for p, at := range c.hold.seen {
		if at != 0 && now.Sub(at) <= window {
			set.Add(p)
		}
	}
	return set
}

// dated returns D_lun: how long a dated echo block counts. It is no longer than the horizon allows for (M4).
func (cfg *Config) dated() time.Duration {
	return cfg.MaxAge + cfg.Budget.Sampling + cfg.Arbitrate
}

func (c *Core) followHold(now boottime.Instant) {
	h := &c.hold
	seen := c.view.Seen
	if c.fx.Statement != nil {
		seen = seen.Union(c.fx.Statement.Seen) // until now, this statement was sent in answers
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

// asking reports whether this node may go on feeding while it reads on the LUN whether others live (H4).
//
// Invariant: a node does not hold while others live by a grant that does not name it, or live by a majority that they
// found after the grant. A grant may end within seconds, but this node must not be fed at the same time as they are.
// Once they state that they do not live, all nodes ask again: the granted half may have come apart, too.
func (c *Core) asking() bool {
	return c.Holds() && c.rosters.oneList() && c.healthy && !(c.hold.overruled && c.hold.heard.Others)
}

// linger extends a permission by healGrace after the first sign that others live again. A grant that names others ends
// it.
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

// certain reports whether the others' own echo blocks prove that they live without this node (H6).
//
// Invariant: neither silence nor a momentary state is proof. If an outage of all networks reaches this node first, the
// others still live until their evidence has expired. So their blocks must show it for longer than that, and must be
// dated later. A grant may be the last act of a half before it came apart, so all holders of the grant must live by it.
func (h *holding) certain(window time.Duration) bool {
	return h.ground != 0 && h.heard.Ground >= h.ground.Add(window)
}

// lives reports whether this node lives by a majority or a tie-break, and not by holding.
func (c *Core) lives(now boottime.Instant) bool {
	if c.sentence.condemned {
		return false
	}
	d := &c.fx.Decision
	return c.outcome == netgossip.Majority && c.view.QuorumUntil > now || d.Quorum && d.Action == Feed ||
		c.lun.arbiter != nil && c.lun.arbiter.Named()
}

// lapse is the allowed delay of a step that renews an ending permission, if the evidence arrived in time. No claim has
// to be longer for it: between two steps this node composes no record, so nobody has read that it did not live (M1).
const lapse = time.Second

// claimsBegin reports whether this node's claims of deaths begin again: it did not live (M1), or it may not have lived
// because it was stopped for longer than its permission lasted (M2).
//
// Invariant: a claim covers only time in which its node lived without a gap. A node holds only while most members of
// the list state that they do not live, so no majority can have claimed its death by then.
func (c *Core) claimsBegin(now, permitted boottime.Instant) (again bool) {
	lives := c.lives(now)
	again = (c.cfg.Hold || c.cfg.LUNMode == LUNOr) && (c.cfg.LUN || c.lun.arbiter != nil) && (!lives || c.hold.lived && now >= permitted.Add(lapse))
	c.hold.lived = lives
	return again
}

// testify writes to the LUN whether this node lives, while a member is missing that may need to know it. If the LUN
// counts like a network, testify always writes it: evidence one heartbeat later would be too late. A planned stop does
// not end this before the guard is given up: the node holds until it can announce the stop.
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

// voices holds the state of the LUN as one more network for quorum (lun.mode: or; lease.md N1 to N6).
//
// Invariant: an echo block counts for no longer than the horizon allows for (N4), and only if its writer saw this node
// when it composed the block (N2). It is also a sighting: the reader does not claim the writer's death for that time
// (N3). So the argument of Prover also holds with the LUN. If x counts a node by the LUN, that node stated no longer
// than D_lun ago that it sees x, and at that moment its claim of the death of x began again.
//
// LEFT depends on the networks alone: traffic must not go to a node that only the LUN reaches (N5).
type voices struct {
	words    []diskquorum.Voice // by member
	until    []boottime.Instant // by member: when counting it by the LUN ends; 0: it is not counted
	heard    roster.Set         // members that this node sees by the LUN
	networks netgossip.View     // the view by the networks alone
	needed   bool               // this node counts a majority only together with the LUN
}

func newVoices(size int) voices {
	return voices{words: make([]diskquorum.Voice, size), until: make([]boottime.Instant, size)}
}

// listens reports whether this node counts by the LUN: the configuration says so, the horizon allows for it, and the
// LUN is open.
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

// sees returns the members that this node states to see, in its echo block on the LUN. If it does not count by the LUN,
// the set is empty: then no member may count this node by the LUN either, because this node does not treat a block
// there as a sighting.
func (c *Core) sees() roster.Set {
	if !c.listens() || c.apart() {
		return roster.Set{}
	}
	return c.view.Seen.Union(c.voices.heard)
}

// ByLUN returns the members that this node counts by the LUN, whether or not the networks reach them.
func (c *Core) ByLUN() (members roster.Set) {
	for p, until := range c.voices.until {
		if c.view.Counted.Has(p) && until > c.stepped {
			members.Add(p)
		}
	}
	return members
}

// NetworkView returns the view by the networks alone. The probing uses it.
func (c *Core) NetworkView() netgossip.View { return c.voices.networks }
