package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// Config holds the settings of a Core.
type Config struct {
	Roster *roster.Roster // the directory: all sets use its indices
	// Succession manages changes of the list of members; nil: the list never changes.
	Succession *roster.Succession
	Networks   int
	Policy     netgossip.Policy
	Quorum     int // 0: floor(N/2)+1
	MaxAge     time.Duration

	LUN            bool          // the lun tie-breaker is configured; for tie-breakers other than LUN and API see BreakTiesBy
	API            bool          // the kubernetes tie-breaker is configured
	APIMaxAge      time.Duration // older results of the API probe do not count
	LUNLostAsksAPI bool          // quorum.tieBreak: lun-then-kubernetes
	LUNMode        LUNMode       // lun.mode
	LUNGrace       time.Duration // LUNAnd: how long this node alone may be without the LUN
	Hold           bool          // lun.hold: without quorum, go on while the LUN shows that no part of the group lives
	Sentence       Sentencing    // for a node that has certainly lost; needs Hold
	Outside        bool          // this node accepts reports of deaths that were proven elsewhere, see Prover.Tell
	Orders         bool          // this node gives orders to other nodes, and obeys theirs, see Prover.Order
	// Window returns how long a member may be counted because it has seen this node, given the number of members; nil:
	// MaxAge plus the budget's Sampling.
	Window    func(members int) time.Duration
	Arbitrate time.Duration // A
	OnLoss    LossPolicy
	// Budget is the time budget on which the peers rely. The watchdog's real timeout replaces the one in Budget as soon
	// as it is known.
	Budget       Budget
	RestartGrace time.Duration // no LEFT for this long after a peer has announced a restart

	Boot    uint64           // nonce of the kernel boot
	Booted  boottime.Instant // when the kernel booted, by this node's clock; zero: at the clock's zero, as with CLOCK_BOOTTIME
	Machine uint64           // identity of the machine; 0: not known
	Version string
}

// Effects holds the actions that a step asks for. Their order is: the permission, the LUN or another tie-breaker, the
// statement, the publication. It is valid until the next step.
type Effects struct {
	Decision Decision
	Changed  bool // action, reason or quorum differ from the step before

	Arm    bool // the watchdog should be armed: quorum has been seen and no disarm signal is set
	Disarm bool // the watchdog should be disarmed by magic close
	// Condemn is the timeout to which the feeder sets the watchdog, once; after that, the feeder never touches the
	// watchdog again. Answer with Core.Sentenced. 0: this node has not condemned itself.
	Condemn time.Duration

	Ops     []diskquorum.Op // to be submitted to the LUN's devices
	Lock    int             // slot whose host-wide lock is wanted on each device, or -1
	Attempt *diskquorum.Attempt
	AskAPI  bool // an answer of the API server may be needed soon: ask it often
	// Ask lists the peers whose statements are wanted now, by the network on which to ask them. It replaces earlier
	// requests that have not been sent yet; nil: no change.
	Ask []roster.Set

	Statement *netgossip.Statement // for the peers; a new pointer after each change
	Nudge     bool                 // send the statement to them now
	Relay     netgossip.Relay      // about the tie-breaker, sent to them with each answer

	Fenced roster.Set // see Prover.Fenced
	Told   []Answer   // to Prover.Tell
	Obeyed []Answer   // to Prover.Order
	Spread bool       // the statement passes on a death that was reported to this node: tell all peers at once
	Strike bool       // this node may be taken down now, if the configuration does not make it wait for its watchdog

	Available roster.Set // nodes to publish as available, self included while it may live
	Left      roster.Set // edges since the step before: all of Left come before those of Joined
	Joined    roster.Set // a rebooted node is in both
	Flapping  roster.Set // see Core.Flapping

	Rosters RosterEffects

	Wake boottime.Instant // the next step must come by then
}

// Core owns the state of the decision. It is not safe for concurrent use.
type Core struct {
	guarding // state of the watchdog, and of this boot
	publication

	cfg     Config
	merger  *netgossip.Merger
	lun     lun
	breaker tie.Breaker // decides equal splits: lun, or another one; never nil

	view      netgossip.View
	outcome   netgossip.Outcome
	hadQuorum bool
	holdUntil boottime.Instant
	lastUntil boottime.Instant // QuorumUntil of the last step with a majority
	tieSince  boottime.Instant

	api      apiState
	proof    Prover
	terms    agreement
	united   bool             // all members of the view break ties by the same terms
	starving boottime.Instant // since when this node starves for want of quorum; zero: it does not
	wall     int64
	kubeAway bool // SetUnheard

	stepped   boottime.Instant // when the step before was
	holdLeft  boottime.Instant // before this, this node neither condemns itself nor is taken down; for LEFT see stall.holdLeft
	stall     stall
	rosters   Rosters
	judgement judgement // of this boot

	split   tie.Output
	healthy bool // whether the LUN is healthy, by the arbiter's latest step
	sense   lunSense
	hold    holding
	voices  voices

	fx      Effects
	changed boottime.Instant
	asked   tie.Input
}

// NewCore returns a core that has seen nobody yet.
func NewCore(cfg Config) *Core {
	if cfg.Succession == nil {
		cfg.Succession = alone(cfg.Roster, cfg.Quorum)
	}
	c := &Core{
		cfg: cfg,
		merger: netgossip.NewMerger(netgossip.MergerConfig{
			Roster: cfg.Roster, Networks: cfg.Networks, Policy: cfg.Policy, MaxAge: cfg.MaxAge, Countable: cfg.Succession.Countable,
		}),
		publication: newPublication(cfg.Roster.Size(), cfg.RestartGrace),
		hold:        holding{seen: make([]boottime.Instant, cfg.Roster.Size())},
		voices:      newVoices(cfg.Roster.Size()),
		fx:          Effects{Lock: -1},
	}
	c.proof = newProver(&c.cfg, &c.rosters, c.merger)
	c.guarding = guarding{cfg: &c.cfg, disarm: make(map[string]string)}
	c.rosters = Rosters{cfg: &c.cfg, merger: c.merger}
	c.breaker, c.granted = &c.lun, cfg.LUN
	c.SetGuard(false, 0)
	c.rosters.recount()
	return c
}

// Rosters returns the lists of members that this node uses.
func (c *Core) Rosters() *Rosters { return &c.rosters }

// Merger returns the reachability state, for events and for display.
func (c *Core) Merger() *netgossip.Merger { return c.merger }

// SetWallTime sets the wall-clock time for records that people read; no decision depends on it.
func (c *Core) SetWallTime(unixMilli int64) { c.wall = unixMilli }

// SetUnheard records whether the source of this node's Node object no longer answers, so that others can report this;
// no decision here depends on it.
func (c *Core) SetUnheard(is bool) { c.kubeAway = is }

// View returns the latest view.
func (c *Core) View() netgossip.View { return c.view }

// Decision returns the latest decision.
func (c *Core) Decision() Decision { return c.fx.Decision }

// Available returns the latest set of nodes to publish.
func (c *Core) Available() roster.Set { return c.fx.Available }

// Outcome compares the latest view with the roster.
func (c *Core) Outcome() netgossip.Outcome { return c.outcome }

// Since returns when the present decision was first made.
func (c *Core) Since() boottime.Instant { return c.changed }

// Split returns the tie-breaker's latest output.
func (c *Core) Split() *tie.Output { return &c.split }

// Deaths returns the Prover, which knows the dead nodes and accepts reports about them.
func (c *Core) Deaths() *Prover { return &c.proof }

// Step evaluates everything at now: whom this node sees, whether its own boot is condemned, on which grounds it may
// live, what happens to its watchdog, which other nodes are dead, and what to publish. In steady state it does not
// allocate.
func (c *Core) Step(now boottime.Instant) *Effects {
	c.see(now)
	if c.judge(now, c.situation(now)) {
		c.view = c.look(now)
	}
	c.weigh(now)
	permitted := c.fx.Decision.Until
	c.decide(now)
	c.followDeaths(now, c.claimsBegin(now, permitted))
	c.state(now)
	c.noteStall(now)
	c.followStrike(now)
	c.publish(now)
	return &c.fx
}

// see finds whom this node sees and counts.
func (c *Core) see(now boottime.Instant) {
	c.view = c.look(now)
	c.followRosters(now)
	// A member that was removed, or is about to join, may be in contact and counted by the merger.
	c.view.Counted = c.view.Counted.And(c.rosters.expected)
	c.followVoices(now)
	c.fx.Wake = min(c.view.NextExpiry, c.rosters.wake)
}

// followRosters continues a change of the list of members, and drops everything that depended on another list.
func (c *Core) followRosters(now boottime.Instant) {
	c.fx.Rosters = RosterEffects{Moves: roster.Moves{Rival: -1}}
	c.rosters.wake, c.rosters.stepped = boottime.Never, now
	defer c.rosters.stand()
	if c.rosters.waits(&c.view) {
		return
	}
	moves, before, changed := c.rosters.advance(now, c.view.Contact)
	c.fx.Rosters.Moves = moves
	if changed {
		c.proof.doubt(now)
		if keep, replaced := c.rosters.carryOver(before, c.proof.guarded, c.view.Contact); replaced {
			c.proof.doubtGuards(now, keep)
		}
		removed := ""
		if c.rosters.removed() {
			removed = "the removal of this node from the list of members"
		}
		c.SetDisarm("removed", removed)
		c.view = c.look(now)
	}
	if c.rosters.stale {
		c.fx.Rosters.Directory = c.rosters.directory(now, c.view.Contact)
	}
}

// look returns the view of this step. A node that is condemned, or does not know yet whether it is, sees nobody as far
// as others are concerned (P2, P2'), and nobody sees or counts a boot that is condemned (P5).
func (c *Core) look(now boottime.Instant) netgossip.View {
	c.merger.Bar(c.proof.barred())
	v := c.merger.Evaluate(now, c.rosters.quorum)
	s := &c.sentence
	if s.blind && s.sight != 0 && now >= s.sight {
		s.blind = false
	}
	if c.apart() {
		v.Counted, v.Contact, v.QuorumUntil = roster.Set{}, roster.Set{}, 0
		if s.sight > now {
			v.NextExpiry = min(v.NextExpiry, s.sight)
		}
	}
	return v
}

// weigh finds the grounds on which this node may live: a majority, a tie-break, or the fact that no part of the group
// can live.
func (c *Core) weigh(now boottime.Instant) {
	c.outcome = c.rosters.tally(c.view.Counted)
	c.proof.follow(now, c.view.Seen)
	c.proof.sight(now, c.voices.heard, c.voices.words)
	c.proof.date()
	c.followMajority(now)
	c.followTerms()
	c.united = c.unitedHalf()
	c.followAPI(now)
	c.writeSlot(now)
	c.arbitrate(now)
	c.followLUN(now)
	c.followHold(now)
	c.recallGuard()
	c.followRelease(now)
}

// writeSlot sets the contents of this node's slot, and whether the node waits for the others' slots.
func (c *Core) writeSlot(now boottime.Instant) {
	if c.lun.arbiter == nil {
		return
	}
	in := &c.lun.input
	in.Own = c.statement(now)
	in.Own.Stated = boottime.Instant(now.Sub(c.cfg.Booted))
	in.WallTime = c.wall
	in.Look = c.proof.waits || c.termsWait()
}

// decide makes the decision from the results of weigh, and sets what happens to the watchdog.
func (c *Core) decide(now boottime.Instant) {
	in, prev := c.inputs(now), c.fx.Decision
	d := Decide(&in)
	if d.Quorum && d.Action == Feed {
		c.hadQuorum = true
	}
	c.fx.Changed = d.Action != prev.Action || d.Reason != prev.Reason || d.Quorum != prev.Quorum
	if c.fx.Changed {
		c.changed = now
	}
	c.fx.Decision = d
	c.fx.Disarm = d.Action == Disarm
	wanted := c.hadQuorum && !c.fx.Disarm && !c.sentence.condemned
	c.fx.Arm = wanted && c.mayArm()
	c.arming = wanted && !c.fx.Arm
	if c.fx.Condemn = 0; c.sentence.condemned && !c.sentence.inherited {
		c.fx.Condemn = c.cfg.Sentence.Timeout
	}
	if d.Until > now {
		c.fx.Wake = min(c.fx.Wake, d.Until)
	}
}

func (c *Core) inputs(now boottime.Instant) Inputs {
	in := Inputs{
		Now: now, Condemned: c.sentence.condemned, Disarm: len(c.disarm) > 0, Stopping: c.stopping,
		Guarded: c.guard.Kills(), Released: c.release.done,
		Outcome: c.outcome, QuorumUntil: c.view.QuorumUntil, HadQuorum: c.hadQuorum,
		Arbiter: c.granted, Split: c.split.Split, SplitUntil: c.split.Until, HoldUntil: c.holdUntil,
		AtOdds: !c.united, ByLUN: c.voices.needed, LUNIsolated: c.hold.heard.Isolated, LUNLost: c.sense.lost,
		Excluded: c.hold.excluded, Vacant: c.hold.heard.Vacant, Asking: c.asking(),
		API: c.cfg.API, LUNLostAsksAPI: c.cfg.LUNLostAsksAPI,
		OnLoss: c.cfg.OnLoss, LossLease: c.cfg.MaxAge,
	}
	if until := c.api.until(c.cfg.APIMaxAge); until > now {
		in.APIAsked = true
		if c.api.reachable {
			in.APIUntil = until
		}
	}
	return in
}

// followDeaths writes to the LUN whether this node lives, finds the dead nodes, and handles orders in both directions.
// If gap is set, claims begin again.
func (c *Core) followDeaths(now boottime.Instant, gap bool) {
	c.testify(now)
	in := c.situation(now)
	in.Gap = gap
	if c.proof.step(now, in).Unfired {
		c.GuardFailed()
	}
	out := c.proof.followOrders(now, c.situation(now))
	c.fx.Wake = min(c.fx.Wake, out.Wake)
	c.fx.Ask, c.fx.Told, c.fx.Obeyed, c.fx.Fenced = out.Ask, out.Answers, out.Obeyed, c.proof.fenced
}

// situation collects the present input of the Prover.
func (c *Core) situation(now boottime.Instant) proverInput {
	d := &c.fx.Decision
	won := d.Reason == ReasonSplitWon
	return proverInput{
		View: c.view, Heard: c.voices.heard, Restarting: c.publication.held,
		Apart: c.apart(), Condemned: c.sentence.condemned, Unfired: c.unfired,
		Sole: c.soleSide(now), Leads: c.leads(), Majority: d.Quorum && c.outcome == netgossip.Majority,
		Granted: won && c.guard.Leases && !c.split.Relayed, // a node that relies on another holder's writes cannot read the victim's latest record itself
		Won:     won, Until: d.Until, BySlots: c.bySlots(), Unfit: c.unfit(now),
	}
}

// soleSide reports whether only this node's side can live: this node counts a majority, or is in the half that a grant
// names.
//
// Invariant: in an equal split that is undecided, or decided by which half reaches the API server, both halves may
// live. So neither half believes a report that the other half is dead: the reporter may see only one of the halves.
func (c *Core) soleSide(now boottime.Instant) bool {
	if d := &c.fx.Decision; !d.Quorum || d.Action == Hold || c.apart() {
		return false
	}
	return c.outcome == netgossip.Majority || c.granted && c.split.Split == tie.Won && c.split.Until > now
}

// leads reports whether this node counts a majority, and not only half of an equal split.
func (c *Core) leads() bool {
	return !c.apart() && c.fx.Decision.Quorum && c.fx.Decision.Action == Feed && c.rosters.mostOfEach(c.view.Counted)
}

// unfit returns why this node's own state keeps it from obeying an order; 0: it may obey.
func (c *Core) unfit(now boottime.Instant) Refusal {
	need := 2 * (c.cfg.Sentence.Timeout + 500*time.Millisecond) // like a sentence, an obeyed order must end within the horizon that others rely on
	switch {
	case !c.cfg.Orders || c.cfg.Sentence.Timeout <= 0 || !c.briefly() || c.set < need:
		return RefusedOff
	case !c.mayEnd(now): // also under maintenance, and in a dry run
		return RefusedUnguarded
	case !c.leads():
		return RefusedNoMajority
	}
	return 0
}

// Renumber makes the roster to the directory: from now on all sets use the indices of to. Call it only between two
// steps.
func (c *Core) Renumber(to *roster.Roster) {
	n := roster.Renumber(c.cfg.Roster, to)
	c.merger.Renumber(to)
	c.cfg.Roster = to
	c.publication.renumber(n, to.Size())
	c.proof.retell(n)
	c.proof.renumber(n, to)
	c.proof.doubt(c.stepped)
	c.hold.seen = renumbered(n, c.hold.seen, to.Size())
	c.voices = newVoices(to.Size())
	c.terms.heard, c.terms.unfit = n.Set(c.terms.heard), n.Set(c.terms.unfit)
	c.view = netgossip.View{Seen: n.Set(c.view.Seen), Contact: n.Set(c.view.Contact), Counted: n.Set(c.view.Counted)}
	c.fx.Available, c.fx.Left, c.fx.Joined = n.Set(c.fx.Available), n.Set(c.fx.Left), n.Set(c.fx.Joined)
	c.fx.Fenced = n.Set(c.fx.Fenced)
	c.rosters.peers.Self, c.rosters.peers.Contact = to.Self, c.view.Contact
	c.rosters.stand()
	c.rosters.recount()
	c.breaker.SetRoster(to, c.rosters.base().Size())
}

// statement returns this node's present statement. A node that is about to disarm does not claim to be guarded: other
// nodes must not conclude from its silence that a watchdog has reset it.
func (c *Core) statement(now boottime.Instant) netgossip.Statement {
	st := netgossip.Statement{
		Boot:         c.cfg.Boot,
		Machine:      c.cfg.Machine,
		RosterEpoch:  c.cfg.Roster.Epoch,
		RosterDigest: c.cfg.Roster.Digest,
		Standing:     c.rosters.standing,
		Token:        c.split.Token,
		Seen:         c.view.Seen,
		View:         c.view.Counted,
		Guarded:      c.proof.guarded,
		Dues:         c.proof.dues,
		Lost:         c.proof.lost,
		Guard:        c.statedGuard(),
		Terms:        c.terms.own,
		Agreed:       c.terms.own.Stated() && c.Agreed(),
		Feeding:      (c.fx.Decision.Action == Feed || c.fx.Decision.Action == Hold) && !(c.wantsDisarm() && len(c.disarm) > 0),
		Stopping:     c.guarding.leaving(),
		LUNHealthy:   c.healthy,
		APIReachable: c.api.tells(now, c.cfg.APIMaxAge),
		Unheard:      c.kubeAway,
		Version:      c.cfg.Version,
		Sentence:     c.sentence.timeout,
	}
	var again boottime.Instant
	st.Facts, again = c.proof.facts(now)
	c.fx.Wake = min(c.fx.Wake, again)
	if c.sentence.condemned || c.sentence.blind {
		st.Seen, st.View, st.Lost, st.Dues = roster.Set{}, roster.Set{}, roster.Set{}, netgossip.Dues{} // no part of its statement may count for others
		st.Facts = [netgossip.MaxFacts]netgossip.Fact{}
	}
	return st
}

// state renews the statement for the peers if it has changed. Peers wait for a new view or token, so a statement with
// either is sent at once.
func (c *Core) state(now boottime.Instant) {
	st := c.statement(now)
	old := c.fx.Statement
	c.fx.Nudge, c.fx.Spread = false, false
	if old != nil {
		st.Stated = old.Stated
		if *old == st {
			return
		}
	}
	st.Stated = boottime.Instant(now.Sub(c.cfg.Booted))
	c.fx.Spread = c.proof.spreads(&st.Facts)
	c.fx.Nudge = old == nil || old.Token != st.Token || old.View != st.View || old.Seen != st.Seen || old.Stopping != st.Stopping || old.Sentence != st.Sentence ||
		old.Guard != st.Guard || old.Terms != st.Terms || old.Agreed != st.Agreed || old.Lost != st.Lost || old.Standing != st.Standing
	c.replace(st)
}

// replace is separate from state so that only a changed statement costs an allocation.
func (c *Core) replace(st netgossip.Statement) { c.fx.Statement = &st }
