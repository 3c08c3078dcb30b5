package watchdog

import (
	"maps"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// guarding holds the state of the watchdog, what peers are told about it, and the signals that ask to disarm it.
type guarding struct {
	cfg      *Config // the core's configuration
	sentence         // about this node's own boot

	disarm   map[string]string // the reason of each raised signal, by source
	stopping bool
	granted  bool // ties are decided by a grant, of the LUN or of another tie-breaker
	guard    netgossip.Guard
	driver   Driver        // of the watchdog
	set      time.Duration // the watchdog's timeout as read back; guard.Timeout may be longer
	unfired  bool          // the watchdog of this boot was observed not to fire
	release  release
	arming   bool // the watchdog should be armed, but too few nodes know of this agent
}

// sentence is what this node has decided about its own boot. The kernel remembers it: a countdown that is not longer
// than [netgossip.MaxSentence] tells any later agent of this boot that the boot is condemned (P2').
type sentence struct {
	condemned bool   // for good (P7)
	inherited bool   // condemned by an agent before this one
	ordered   string // the member that has ordered it; "": this node decided it itself
	at        boottime.Instant
	timeout   time.Duration // T as read back; only then it may be announced; 0: it may not
	answered  bool          // the feeder has reported the timeout that it set

	blind bool             // the kernel's countdown could not be read: no peer is counted before sight
	sight boottime.Instant // when blind ends; zero: the agent before this one is not known to be gone yet
}

// Condemned reports whether this boot is condemned, since when, and the watchdog's timeout as read back; 0: nothing
// is announced.
func (s *sentence) Condemned() (since boottime.Instant, timeout time.Duration, condemned bool) {
	return s.at, s.timeout, s.condemned
}

// CondemnedBy returns the member by whose order this boot is condemned; "": no member ordered it.
func (s *sentence) CondemnedBy() string { return s.ordered }

// Blind records that the agent cannot see what the kernel counts down. The agent counts nobody until PredecessorGone is
// called, and then for as long as a countdown that began at that moment may run.
func (s *sentence) Blind() { s.blind = true }

// PredecessorGone records that the agent before this one has ended, and that the kernel has given up its watchdog.
func (s *sentence) PredecessorGone(now boottime.Instant) {
	if s.sight == 0 {
		s.sight = now.Add(netgossip.MaxSentence + time.Second)
	}
}

// Sentenced records the feeder's answer to Effects.Condemn: the timeout as read back, or 0 if it is not known for
// certain. With 0, nothing is announced, but the boot is still condemned (P2, P3).
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

// SetDisarm raises the disarm signal of a source; why is the reason as people read it, and "" lowers the signal. Any
// raised signal disarms. The core itself knows only one source, the list of members; any other source only has to call
// SetDisarm.
func (g *guarding) SetDisarm(source, why string) {
	if why != "" {
		g.disarm[source] = why
	} else {
		delete(g.disarm, source)
	}
}

// DisarmedBy lists the reasons of the raised disarm signals, in the order of their sources' names.
func (g *guarding) DisarmedBy() []string {
	var why []string
	for _, source := range slices.Sorted(maps.Keys(g.disarm)) {
		why = append(why, g.disarm[source])
	}
	return why
}

// Stop begins the planned stop: the node tells its peers, disarms and stops arbitrating. In a condemned boot it does
// nothing.
func (g *guarding) Stop() { g.stopping = !g.condemned }

// SetDriver records what is known of the watchdog's driver. After the next SetGuard, peers are told when it fires at
// the latest.
func (g *guarding) SetDriver(d Driver) { g.driver = d }

// SetGuard records what the watchdog will do, as read back from the driver.
//
// Invariant: peers are told the latest time at which the watchdog fires, and this node's own sums use the same (L9).
// The earliest time at which it may fire is used for feeding only.
func (g *guarding) SetGuard(armed bool, timeout time.Duration) {
	if g.condemned {
		return // the earlier statement stays valid: peers that have not heard of the sentence rely on it
	}
	g.release.yielded, g.set = false, timeout
	g.guard = netgossip.Guard{
		Armed: armed, Fences: g.cfg.OnLoss == LossFence, Leases: g.granted && !g.cfg.LUNLostAsksAPI, Timeout: g.driver.Latest(timeout),
	}
	g.bound()
}

// GuardFailed records, for good, that the watchdog of this boot has counted down unfed and did not fire in time. From
// then on this boot has no horizon, even if the watchdog is armed again. So no node concludes from time or from a
// sentence that this boot is dead (L9, P9).
func (g *guarding) GuardFailed() {
	g.unfired = true
	g.bound()
}

// bound sets the horizon to that of the budget. Before the watchdog has been armed for the first time, that is the
// horizon for the configured timeout, because a grant may come before the arming. There is no horizon while a countdown
// runs whose length the driver does not report.
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

// recallGuard looks in this node's slot for a failed watchdog: an earlier agent of this boot wrote that the watchdog is
// armed and has a timeout, but no horizon. An agent writes these three together only after it has observed that the
// watchdog did not fire. If a driver does not report its timeout, no timeout is written.
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

// SetBudget replaces the time budget when the number of members changes. It must never become shorter: peers may rely
// on what they were told before.
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

// wantsDisarm reports whether this node is giving its guard up and has announced it.
func (g *guarding) wantsDisarm() bool { return g.disarmAsked() && g.release.announced != 0 }

// Releasing reports whether the node still waits before it disarms: until its peers' statements show that they know of
// it, or until the node may live and so may announce it.
func (g *guarding) Releasing() bool { return g.disarmAsked() && !g.release.done }

func (g *guarding) leaving() bool { return g.stopping && g.wantsDisarm() }

// Released reports whether the watchdog may be disarmed for a planned stop: no peer relies on it, or enough peers know
// that it is given up.
func (g *guarding) Released() bool { return g.release.done }

// statedGuard is the guard as stated to peers. A guard that was given up is not claimed again before the feeder has
// reported the result.
func (g *guarding) statedGuard() netgossip.Guard {
	said := g.guard
	said.Armed = said.Armed && !g.wantsDisarm() && !g.release.yielded
	return said
}

// Arming reports whether the watchdog should be armed, but the node still waits for peers to state that they know of
// this agent.
func (g *guarding) Arming() bool { return g.arming }

// briefly reports whether the watchdog can count down a sentence. Its ordinary timeout must be longer than a sentence
// may be: otherwise the next agent could not tell the two apart by what the kernel shows. And its driver must not fire
// later than a sentence may announce (P3).
func (g *guarding) briefly() bool {
	return g.set > netgossip.MaxSentence && g.driver.Shortest(g.cfg.Sentence.Timeout) <= netgossip.MaxSentence
}

// release holds the state of giving up a guard. A disarm signal or a planned stop is announced first, by a statement
// that says unarmed, and carried out once enough others know of it.
//
// Invariant: while a node's guard is given up, every set of members that could prove its death by time has a member
// that knows of it (see Prover). Hence a node that has lost its peers is not disarmed: they may already count on its
// death.
type release struct {
	announced boottime.Instant // when the statement began to say unarmed; zero: nothing is announced
	mark      uint64           // sequence of this node's slot at that moment
	done      bool             // enough others know
	yielded   bool             // done, but the feeder has not reported the result yet
}

// letReach bounds the delay of an answer: one that was sent before the announcement arrives within this time.
const letReach = 500 * time.Millisecond

// mayGiveUp reports whether this node may begin to give its guard up: it lives by a majority or by a tie-break that its
// half has won, or its watchdog would not reset it.
//
// Invariant: a node without quorum neither gives its guard up nor announces it, not even for a stop or for maintenance.
// While it is undecided which half lives, a disarmed node of the losing half would run on, and no node could ever call
// it FENCED. An announcement alone has the same effect: a guard that was announced as given up proves no death, even if
// it fires.
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
		c.fx.Wake = min(c.fx.Wake, now) // the tie-breaker has to learn of a stop, too
		if c.lun.arbiter != nil {
			r.mark = c.lun.arbiter.Status(now).Sequence
		}
	}
	if r.done = r.done || !c.guard.Kills() || c.rosters.removed() || c.releaseKnown(now); r.done {
		r.yielded = c.guard.Armed
	}
}

// releaseKnown reports whether enough others know of the announcement. A majority is enough: it shares a member with
// every majority, and with every half that does not contain this node. All of this node's half of an equal split also
// share a member with every majority. The other half learns of the announcement from the slot, which it reads before it
// proves a death. Tie-breakers other than the LUN have no slots, and a half that gets the next grant would take this
// node for dead. With such a tie-breaker the node waits for a majority.
//
// Invariant: no node of a half gives up its guard before the split is decided for that half. Only the watchdogs stop
// the losing half; a disarmed node of the losing half would run on, and no node could ever call it FENCED.
func (c *Core) releaseKnown(now boottime.Instant) bool {
	switch c.reach(c.release.announced) {
	case reachMost:
		return true
	case reachHalf:
		if d := &c.fx.Decision; d.Action != Feed || !d.Quorum {
			return false // not decided, or lost
		}
		// A half that is at odds may write to a LUN that the other half does not read.
		return !c.guard.Leases || c.united && c.slotShows(now)
	default:
		return false
	}
}

// reach tells how many of the members know this node's latest statement about its guard.
type reach uint8

const (
	reachFew  reach = iota
	reachHalf       // all of this node's half of an equal split
	reachMost       // more than half
)

// reach returns how many of the counted members know that this node is not guarded: they were asked long enough after
// the given time, and do not take this node for guarded.
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

// slotShows reports whether a record that was made after the announcement has been written to the LUN. At most one
// write is under way at a time, and a write that was under way at the announcement may hold an older record.
func (c *Core) slotShows(now boottime.Instant) bool {
	if c.lun.arbiter == nil {
		return false
	}
	s := c.lun.arbiter.Status(now)
	return c.release.written(now, s.Sequence, s.LastWrite)
}

// written is slotShows, given the sequence and the age of the latest write that reached the LUN.
func (r *release) written(now boottime.Instant, sequence uint64, age time.Duration) bool {
	return sequence >= r.mark+2 && age >= 0 && now.Add(-age) > r.announced.Add(letReach)
}

// mayArm delays the first arming of an agent until enough members have its statement. Members that have not heard it
// may still rely on the guard of an agent that crashed, and on that agent's horizon, which may have been shorter. Until
// this agent arms, the crashed agent's countdown runs on, and resets the node as those members expect. This agent's own
// policy for the loss of quorum makes no difference: the peers rely on the statement of the agent before it.
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
	Sampling  time.Duration // until random samples show that a majority is gone; 0 if every peer is probed
	Voices    time.Duration // D_lun: how long a dated echo block on the LUN counts; 0: it does not count (only lun.mode "or" uses it)
	Arbitrate time.Duration // A: how long a node may go on feeding in an undecided tie; 0 without a tie-breaker
	Grant     time.Duration // G: how long a grant outlives the last completed write
	Feed      time.Duration // F: time between two feeds
	Watchdog  time.Duration // W: as read back from the driver
	// Release is R: the time that the death of a starved agent can add. The kernel restarts the countdown once when the
	// last descriptor of an armed watchdog is closed without the magic character, which is what kill -9 and the OOM
	// killer do.
	Release time.Duration
	Margin  time.Duration // rounding of drivers and timers
}

// WithWatchdog returns the budget for the timeout that the driver reports.
func (b Budget) WithWatchdog(w time.Duration) Budget {
	b.Watchdog, b.Release = w, w
	return b
}

// evidence is how long a node may still count a majority that is gone, by the networks or by the LUN.
func (b Budget) evidence() time.Duration { return max(b.MaxAge+b.Sampling, b.Voices) }

// Majority is the time after which a node that lost contact with a majority is dead. In the worst case all of this
// happens: random samples are still answered for a while, the evidence runs out, the watchdog is fed at the last
// moment, the agent is killed at the last moment of the countdown, the countdown begins once more, and the watchdog
// fires.
func (b Budget) Majority() time.Duration {
	return b.evidence() + b.Feed + b.Watchdog + b.Release + b.Margin
}

// Tie is the same for the losing half of an equal split.
func (b Budget) Tie() time.Duration {
	return max(b.evidence()+b.Arbitrate, b.Grant) + b.Feed + b.Watchdog + b.Release + b.Margin
}

// Horizon is the longest that a node can run after the last member of a majority has seen it, however it lost its
// peers. The node states it to them.
func (b Budget) Horizon() time.Duration { return max(b.Majority(), b.Tie()) }
