package watchdog

import (
	"maps"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// guarding is the state of the watchdog, what peers are told about it, and what asks to give it up.
type guarding struct {
	cfg      *Config // of the core
	sentence         // of this node's own boot

	disarm   map[string]string // why, by source
	stopping bool
	granted  bool // ties are decided by a grant, of the LUN or of another tie-breaker
	guard    netgossip.Guard
	driver   Driver        // of the watchdog
	set      time.Duration // the watchdog's timeout as read back, which may be less than that of guard
	unfired  bool          // the watchdog of this boot was seen not to fire
	release  release
	arming   bool // the watchdog should be armed, but too few nodes know of this agent
}

// sentence is what this node has decided about its own boot. The kernel remembers it: a countdown that is not longer
// than [netgossip.MaxSentence] tells any later agent of this boot that the boot is condemned (P2').
type sentence struct {
	condemned bool   // for good (P7)
	inherited bool   // condemned by an agent before this one
	ordered   string // who has ordered it; "": this node decided it itself
	at        boottime.Instant
	timeout   time.Duration // T as read back, so it may be announced; 0: it may not
	answered  bool          // the feeder has said what became of the timeout

	blind bool             // the kernel's countdown could not be read: no peer is counted before sight
	sight boottime.Instant // when blind ends; zero: the agent before this one is not known to be gone yet
}

// Condemned reports whether this boot is condemned, since when, and the watchdog's timeout as read back; 0: nothing
// is announced.
func (s *sentence) Condemned() (since boottime.Instant, timeout time.Duration, condemned bool) {
	return s.at, s.timeout, s.condemned
}

// CondemnedBy is the member by whose order this boot is condemned; "": by none.
func (s *sentence) CondemnedBy() string { return s.ordered }

// Blind says that the agent cannot see what the kernel counts down. It counts nobody until PredecessorGone, and after
// that for as long as a countdown that began at that moment may take.
func (s *sentence) Blind() { s.blind = true }

// PredecessorGone says that the agent before this one has ended, and that the kernel has given up its watchdog.
func (s *sentence) PredecessorGone(now boottime.Instant) {
	if s.sight == 0 {
		s.sight = now.Add(netgossip.MaxSentence + time.Second)
	}
}

// Sentenced takes what the feeder made of Effects.Condemn: the timeout as read back, or 0 if it is not known for
// certain. With 0, nothing is announced, but the boot is condemned all the same (P2, P3).
func (s *sentence) Sentenced(timeout time.Duration) {
	if !s.condemned || s.answered {
		return
	}
	if s.answered = true; timeout > 0 && timeout <= netgossip.MaxSentence {
		s.timeout = timeout
	}
}

// apart reports whether this node counts nobody: it is condemned, or does not know yet whether it is.
func (s *sentence) apart() bool { return s.blind || s.condemned }

// SetDisarm raises the disarm signal of a source, and says why in words for people; "" lowers it. Any raised signal
// disarms. The core itself knows only one source, the list of members: a new source only has to call this.
func (g *guarding) SetDisarm(source, why string) {
	if why != "" {
		g.disarm[source] = why
	} else {
		delete(g.disarm, source)
	}
}

// DisarmedBy is why each of the disarm signals is raised, in the order of their sources' names.
func (g *guarding) DisarmedBy() []string {
	var why []string
	for _, source := range slices.Sorted(maps.Keys(g.disarm)) {
		why = append(why, g.disarm[source])
	}
	return why
}

// Stop begins the planned stop: disarm, say so to the peers, stop arbitrating. In a condemned boot it does nothing.
func (g *guarding) Stop() { g.stopping = !g.condemned }

// SetDriver notes what is known of the watchdog's driver. From the next SetGuard on peers are told when it fires at the latest.
func (g *guarding) SetDriver(d Driver) { g.driver = d }

// SetGuard notes what the watchdog will do, as read back from the driver.
//
// Invariant: peers are told the latest time at which the watchdog fires, and this node's own sums use the same (L9).
// The earliest time at which it may fire is used for feeding only.
func (g *guarding) SetGuard(armed bool, timeout time.Duration) {
	if g.condemned {
		return // the earlier statement stays valid: peers that do not know the sentence rely on it
	}
	g.release.yielded, g.set = false, timeout
	g.guard = netgossip.Guard{
		Armed: armed, Fences: g.cfg.OnLoss == LossFence, Leases: g.granted && !g.cfg.LUNLostAsksAPI, Timeout: g.driver.Latest(timeout),
	}
	g.bound()
}

// GuardFailed says, for good, that the watchdog of this boot has counted down unfed and did not fire in time: after
// that this boot has no horizon, whether or not the watchdog is armed again. So nobody takes this boot for dead by
// time or by a sentence (L9, P9).
func (g *guarding) GuardFailed() {
	g.unfired = true
	g.bound()
}

// bound sets the horizon to that of the budget. Before the watchdog was armed for the first time, that is the horizon
// for the timeout which will be asked for: a grant may come first. There is no horizon while a countdown runs whose
// length the driver does not report.
func (g *guarding) bound() {
	switch {
	case g.unfired:
		g.guard.Horizon = 0
	case g.guard.Timeout > 0:
		g.guard.Horizon = g.cfg.Budget.WithWatchdog(g.guard.Timeout).Horizon()
	case g.guard.Armed:
		g.guard.Horizon = 0
	default:
		g.guard.Horizon = g.cfg.Budget.Horizon()
	}
}

// recallGuard finds in this node's slot what an earlier agent of this boot has said about the watchdog: that it is
// armed and has a timeout, but no horizon, because it was seen not to fire. Nothing else writes these three together:
// where a driver does not report its timeout, none is written.
func (c *Core) recallGuard() {
	if c.unfired || c.guard.Armed || c.lun.arbiter == nil {
		return
	}
	rec, ok := c.lun.arbiter.PeerSlot(c.cfg.Roster.Name(c.cfg.Roster.Self))
	if !ok || rec.Statement.Boot != c.cfg.Boot || rec.GrantLifetime == 0 { // an agent that states no lifetime states no horizon either
		return
	}
	if g := &rec.Statement.Guard; g.Armed && g.Timeout > 0 && g.Horizon == 0 {
		c.GuardFailed()
	}
}

// SetBudget replaces the time budget when it follows the number of members. It must never become shorter: peers may
// rely on what they were told before.
func (c *Core) SetBudget(b Budget) {
	if b.Horizon() < c.cfg.Budget.Horizon() {
		return
	}
	c.cfg.Budget = b
	c.bound()
}

func (g *guarding) disarmAsked() bool {
	if g.condemned {
		return false // there is nothing left to give up
	}
	return g.stopping || len(g.disarm) > 0
}

// wantsDisarm reports whether this node is giving its guard up, and says so.
func (g *guarding) wantsDisarm() bool { return g.disarmAsked() && g.release.announced != 0 }

// Releasing reports whether the node still waits with disarming: until its peers' statements say that they know of it,
// or until it lives and may tell them.
func (g *guarding) Releasing() bool { return g.disarmAsked() && !g.release.done }

func (g *guarding) leaving() bool { return g.stopping && g.wantsDisarm() }

// Released reports whether the watchdog may be disarmed for a planned stop: nobody relies
// on it, or enough others know that it is given up.
func (g *guarding) Released() bool { return g.release.done }

// statedGuard is the guard as stated to peers. A guard that was given up is not claimed again before the feeder has
// reported the result.
func (g *guarding) statedGuard() netgossip.Guard {
	said := g.guard
	said.Armed = said.Armed && !g.wantsDisarm() && !g.release.yielded
	return said
}

// Arming reports whether the watchdog should be armed but waits until the peers say that they know of this agent.
func (g *guarding) Arming() bool { return g.arming }

// briefly reports whether the watchdog can count down a sentence: its ordinary timeout is longer than a sentence may
// be, since otherwise the next agent could not tell the two apart by what the kernel shows. And its driver does not
// fire later than a sentence may announce (P3).
func (g *guarding) briefly() bool {
	return g.set > netgossip.MaxSentence && g.driver.shortest(g.cfg.Sentence.Timeout) <= netgossip.MaxSentence
}

// release is the giving up of a guard: a disarm signal or a planned stop is announced, by a statement that says
// unarmed, and carried out when enough others know of it.
//
// Invariant: while a node's guard is given up, every set of members that could prove its death by time has a member
// that knows of it (see Prover). Hence a node that has lost its peers is not disarmed: they may already count on its
// death.
type release struct {
	announced boottime.Instant // since when the statement says unarmed; zero: nothing is announced
	mark      uint64           // sequence of this node's slot then
	done      bool             // enough others know
	yielded   bool             // done, and the feeder has not answered since
}

// letReach is how late an answer may arrive that was made before the announcement.
const letReach = 500 * time.Millisecond

// mayGiveUp reports whether the giving up may begin: this node lives by a majority or by what has decided for its half, or nothing kills it.
//
// Invariant: a node without quorum gives its guard up neither for a stop nor for maintenance, and does not announce it
// either. While it is undecided which half lives, a node of the losing half would run on disarmed, and nobody might
// ever call it FENCED. Nor may they if the node has only announced it: its slot says the same, and a guard that is said
// to be given up proves nothing, even though it fires.
func (c *Core) mayGiveUp() bool {
	d := &c.fx.Decision
	return !c.guard.Kills() || c.rosters.removed() || c.outcome == netgossip.Majority || d.Action == Feed && d.Quorum
}

func (c *Core) followRelease(now boottime.Instant) {
	r := &c.release
	if !c.disarmAsked() {
		r.announced, r.done = 0, false
		return
	}
	if r.announced == 0 && !c.mayGiveUp() {
		return
	}
	if r.announced == 0 {
		r.announced = now
		c.fx.Wake = min(c.fx.Wake, now) // the tie-breaker has to know of a stop as well
		if c.lun.arbiter != nil {
			r.mark = c.lun.arbiter.Status(now).Sequence
		}
	}
	if r.done = r.done || !c.guard.Kills() || c.rosters.removed() || c.releaseKnown(now); r.done {
		r.yielded = c.guard.Armed
	}
}

// releaseKnown reports whether enough others know of the announcement. A majority is enough: it shares a member with
// every majority, and with every half that this node is not in. For the majorities, this node's half of an equal split
// is enough; the other half learns of the announcement from the slot, where it looks before it proves a death.
// Tie-breakers other than the LUN have no slots, and a half that is granted next would take this node for dead: so with
// them the node waits for a majority.
//
// Invariant: a half gives up no guard before it is the half that lives. Only the watchdogs stop the losing half; a
// disarmed node of that half runs on, and nobody may ever call it FENCED.
func (c *Core) releaseKnown(now boottime.Instant) bool {
	switch c.reach(c.release.announced) {
	case reachMost:
		return true
	case reachHalf:
		if d := &c.fx.Decision; d.Action != Feed || !d.Quorum {
			return false // not decided, or lost
		}
		// A half that is at odds may write where the other one does not read.
		return !c.guard.Leases || c.united && c.slotShows(now)
	default:
		return false
	}
}

// reach is how many of the members know what this node says about its guard.
type reach uint8

const (
	reachFew  reach = iota
	reachHalf       // all of this node's half of an equal split
	reachMost       // more than half
)

// reach returns how many of the counted members were asked long enough after the given time, and do not take this node
// for guarded.
func (c *Core) reach(since boottime.Instant) reach {
	var knows roster.Set
	knows.Add(c.cfg.Roster.Self)
	for m, st := range c.merger.Said(c.view.Counted, since.Add(letReach)) {
		if !st.Guarded.Has(c.cfg.Roster.Self) {
			knows.Add(m)
		}
	}
	switch {
	case c.rosters.mostOfEach(knows):
		return reachMost
	case 2*knows.Len() < c.rosters.base().Size() || c.outcome != netgossip.EqualSplit:
		return reachFew
	default:
		return reachHalf
	}
}

// slotShows reports whether a record that was made after the announcement has landed. At most one write is under way at
// a time, and the one that was under way at the announcement may be older.
func (c *Core) slotShows(now boottime.Instant) bool {
	if c.lun.arbiter == nil {
		return false
	}
	s := c.lun.arbiter.Status(now)
	return c.release.written(now, s.Sequence, s.LastWrite)
}

// written is slotShows for the sequence and the age of the latest write that landed.
func (r *release) written(now boottime.Instant, sequence uint64, age time.Duration) bool {
	return sequence >= r.mark+2 && age >= 0 && now.Add(-age) > r.announced.Add(letReach)
}

// mayArm holds up the first arming of an agent while too few members have its word. Members that have not heard it may
// still take the node for guarded because of an agent that crashed, with that agent's horizon, which may have been
// shorter. Until this agent arms, the crashed agent's countdown runs on, and resets the node as those members expect.
// What this agent would do without quorum makes no difference: the peers rely on what the agent before it said.
//
// The argument is that of release: a node that proves a death by a majority needs a member that knows. In a tie this
// node's half knows. The other half can prove the death only by a grant of its own, and such a grant follows one that
// names this node when the horizon that is stated with the token is over: in the slot (see Prover.excluded), or to the
// tie-breaker, which waits itself (tie.Breaker; in the Lease K7). Without a grant that names this node no such horizon
// is stated.
func (c *Core) mayArm() bool {
	if c.guard.Armed {
		return true
	}
	switch c.reach(0) { // this agent has asked nobody before it began
	case reachMost:
		return true
	case reachHalf:
		// A half that is at odds may use other tie-breakers than the other half.
		return !c.guard.Leases && c.united || c.fx.Decision.Reason == ReasonSplitWon
	default:
		return false
	}
}

// Budget is the time budget of a node: from the moment a network or a node is lost to
// the moment others may rely on its death (design section 7, lease.md L8, L9).
type Budget struct {
	MaxAge    time.Duration // D_max: evidence older than this counts for nothing
	Sampling  time.Duration // until random samples find that a majority is gone; 0 where every peer is probed
	Voices    time.Duration // D_lun: a dated word on the LUN counts for this long; 0: for nothing (lun.mode: or)
	Arbitrate time.Duration // A: how long a node may go on feeding in an undecided tie; 0 without a tie-breaker
	Grant     time.Duration // G: a grant outlives its last landed write by this
	Feed      time.Duration // F: time between two feeds
	Watchdog  time.Duration // W: as read back from the driver
	// Release is R: what the death of a starved agent can add. The kernel restarts the
	// countdown once when the last descriptor of an armed watchdog is closed without the
	// magic character, which is what kill -9 and the OOM killer do.
	Release time.Duration
	Margin  time.Duration // rounding of drivers and timers
}

// WithWatchdog is the budget with the driver's own timeout in it.
func (b Budget) WithWatchdog(w time.Duration) Budget {
	b.Watchdog, b.Release = w, w
	return b
}

// evidence is how long a node may believe in a majority that is gone, by the networks or by the LUN.
func (b Budget) evidence() time.Duration { return max(b.MaxAge+b.Sampling, b.Voices) }

// Majority is the time after which a node that lost contact with a majority is dead: its samples, where it takes
// samples, are answered by chance for a while, its evidence runs out, it is fed at the last moment, its agent is killed
// at the last moment of the countdown, which begins once more, and its watchdog fires.
func (b Budget) Majority() time.Duration {
	return b.evidence() + b.Feed + b.Watchdog + b.Release + b.Margin
}

// Tie is the same for the losing half of an equal split.
func (b Budget) Tie() time.Duration {
	return max(b.evidence()+b.Arbitrate, b.Grant) + b.Feed + b.Watchdog + b.Release + b.Margin
}

// Horizon bounds the life of a node that no member of a majority sees, however it lost its peers; the node states it to
// them.
func (b Budget) Horizon() time.Duration { return max(b.Majority(), b.Tie()) }
