package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Sentencing is when a node that has lost condemns itself (lease.md P1).
type Sentencing struct {
	// After is for how long all that speaks for it must have stood, since the evidence of the last majority ran out; 0: never.
	After   time.Duration
	Timeout time.Duration // T, as asked for: the watchdog's timeout from then on; also of a node that obeys an order
	Strike  time.Duration // where the node takes itself down, it waits so long for its word to reach the LUN
	LUNLoss bool          // LUNAnd: also a node that alone has lost the LUN condemns itself (E3)
}

// sentence is what this node has decided about its own boot. The memory of it is the kernel's: a countdown that is no longer
// than [netgossip.MaxSentence] says to any later agent of this boot that the boot is condemned (P2').
type sentence struct {
	condemned bool   // for good (P7)
	inherited bool   // by an agent before this one
	ordered   string // who has ordered it; "": this node has found it itself
	at        boottime.Instant
	timeout   time.Duration // T as read back: it may be told; 0: it may not
	answered  bool          // the feeder has said what became of the timeout

	blind bool             // what the kernel counts down could not be seen: nobody is counted before
	sight boottime.Instant // this; zero: the agent before this one is not known to be gone yet

	majority boottime.Instant // evidence of the last majority lasted until then
	view     roster.Set       // whom this node counts,
	quiet    boottime.Instant // and since when that is so, and nobody else was heard
	since    boottime.Instant // others show that they live without this node, at each look since; zero: they do not
	round    uint32           // of the reads of echo blocks then
	loss     lossProof
}

// rounds is in how many reads in a row others must show that they live without this node, the first included.
const rounds = 3

// Condemned reports whether this boot is condemned, since when, and the timeout that the watchdog was read back to have; 0:
// nothing is told of it.
func (c *Core) Condemned() (since boottime.Instant, timeout time.Duration, condemned bool) {
	return c.sentence.at, c.sentence.timeout, c.sentence.condemned
}

// CondemnedBy is the member by whose order this boot is condemned; "": by none.
func (c *Core) CondemnedBy() string { return c.sentence.ordered }

// Inherit says that a countdown of at most [netgossip.MaxSentence] runs as the agent begins: an agent before it has condemned
// this boot. Nothing is opened and nobody is counted. Nothing is told by that alone: it may not have been read back (P2), or
// the countdown may be another program's, which goes on feeding. What the agent before it has told on the LUN is told again.
func (c *Core) Inherit(now boottime.Instant, timeout time.Duration) {
	if timeout <= 0 || timeout > netgossip.MaxSentence {
		return
	}
	s := &c.sentence
	s.condemned, s.inherited, s.at, s.answered = true, true, now, true
	if c.lun.arbiter != nil {
		c.lun.arbiter.Condemn()
	}
}

// Blind says that the agent cannot see what the kernel counts down. It counts nobody until PredecessorGone, and for as long as a
// countdown may run that was begun for the last time then.
func (c *Core) Blind() { c.sentence.blind = true }

// PredecessorGone says that the agent before this one has ended, and that the kernel has given up its watchdog.
func (c *Core) PredecessorGone(now boottime.Instant) {
	if c.sentence.sight == 0 {
		c.sentence.sight = now.Add(netgossip.MaxSentence + time.Second)
	}
}

// Sentenced takes what the feeder made of Effects.Condemn: the timeout as read back, or 0 if it is not known for certain.
// Then nothing is told, and the boot is condemned all the same (P2, P3).
func (c *Core) Sentenced(timeout time.Duration) {
	s := &c.sentence
	if !s.condemned || s.answered {
		return
	}
	if s.answered = true; timeout > 0 && timeout <= netgossip.MaxSentence {
		s.timeout = timeout
	}
}

// apart reports whether this node counts nobody: it is condemned, or does not know yet whether it is.
func (c *Core) apart() bool { return c.sentence.blind || c.sentence.condemned }

// look is the view of this step. A node that is condemned, or waits, sees nobody as far as others are concerned (P2, P2'), and
// nobody sees or counts a boot that is condemned (P5).
func (c *Core) look(now boottime.Instant) netgossip.View {
	c.merger.Bar(c.proof.barred())
	v := c.merger.Evaluate(now, c.quorum)
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

// judge decides whether this node condemns its boot. It goes by the decision of the step before and by what is known now,
// and comes before anything that this step says or does: from here on nothing feeds, arms or disarms the watchdog, no grant is
// held or taken, and no word of this node counts for anybody (P2). What is told comes later, see Sentenced.
//
// Invariant: not by silence. An outage of all networks starves every node at once, and all of them would condemn themselves; the
// evidence shows a side that lives without this node, which every condemned one leaves behind.
func (c *Core) judge(now boottime.Instant) {
	s := &c.sentence
	if a := c.lun.arbiter; a != nil && a.OwnSentence() > 0 && s.timeout == 0 && (s.inherited || !s.condemned) {
		c.Inherit(now, a.OwnSentence()) // carried on: another agent of this boot has told it
		s.timeout = a.OwnSentence()
		c.view = c.look(now)
		return
	}
	if s.condemned {
		return
	}
	c.followQuiet(now)
	if c.obeys(now) {
		s.ordered = c.orders.by
		c.condemn(now)
		return
	}
	if c.judgeLoss(now) {
		c.condemn(now)
		return
	}
	if !c.mayCondemn(now) {
		s.since = 0
		return
	}
	others := c.lun.arbiter.OthersLive(now, c.quorum, c.parted())
	switch {
	case others.Dated == 0:
		s.since = 0
	case s.since == 0:
		s.since, s.round = now, others.Round
	case others.Dated > s.since && others.Round-s.round >= rounds-1 && c.steady(now):
		c.condemn(now)
	}
}

func (c *Core) condemn(now boottime.Instant) {
	c.sentence.condemned, c.sentence.at = true, now
	if c.lun.arbiter != nil { // one that obeys may have no LUN
		c.lun.arbiter.Condemn()
	}
	c.view = c.look(now)
}

// followQuiet notes since when contact is what it is. A member of this side that condemns itself is no contact that comes or goes:
// else each of them would wait for the one before it.
func (c *Core) followQuiet(now boottime.Instant) {
	s := &c.sentence
	if c.tally() == netgossip.Majority {
		s.majority = max(s.majority, c.view.QuorumUntil)
	}
	others := c.rosters.expected.Minus(c.view.Counted).Minus(c.parted())
	if c.view.Counted != s.view.Minus(c.parted()) || c.view.Seen.Intersects(others) {
		s.quiet = now
	}
	s.view = c.view.Counted
	for p := range others.All() {
		s.quiet = max(s.quiet, c.merger.Sighted(p)) // in one direction is contact, too
	}
}

// parted are the members that have condemned themselves, also those that have not told it yet: they are armed and count nobody,
// not even themselves.
func (c *Core) parted() roster.Set {
	set := c.proof.barred()
	for p := range c.rosters.expected.Minus(c.view.Counted).All() {
		st, _ := c.merger.Statement(p)
		if st != nil && st.Guard.Armed && st.View.IsEmpty() && st.RosterDigest == c.cfg.Roster.Digest && st.RosterEpoch == c.cfg.Roster.Epoch {
			set.Add(p)
		}
	}
	return set
}

// steady reports whether contact has been what it is for long enough, and the last majority is as long ago.
func (c *Core) steady(now boottime.Instant) bool {
	after := c.cfg.Sentence.After
	due := max(c.sentence.quiet, c.sentence.majority).Add(after)
	if now < due {
		c.sentence.wake(c, due)
	}
	return now >= due
}

func (s *sentence) wake(c *Core, at boottime.Instant) { c.fx.Wake = min(c.fx.Wake, at) }

// heeding reports whether the latest statement of every other member is of an agent that heeds sentences.
func (c *Core) heeding() bool {
	for p := range c.rosters.expected.All() {
		if p == c.cfg.Roster.Self {
			continue
		}
		if st, _ := c.merger.Statement(p); st != nil && !st.Heeds {
			return false
		}
	}
	return true
}

// mayCondemn is all of P1 but the evidence.
func (c *Core) mayCondemn(now boottime.Instant) bool {
	d := &c.fx.Decision
	lost := d.Action == Starve && (d.Reason == ReasonIsolated || d.Reason == ReasonSplitLost) // by a LUN: no other tie-breaker has one beside it
	return lost && c.tally() != netgossip.Majority && c.mayLose(now)
}

// mayLose is what P1 asks for whatever the evidence.
func (c *Core) mayLose(now boottime.Instant) bool { return c.mayEnd(now) && c.Barred() == BarNone }

// mayEnd is what is asked of this node itself before it condemns its boot, on its own evidence or by an order.
func (c *Core) mayEnd(now boottime.Instant) bool {
	stalled := c.stepped != 0 && now.Sub(c.stepped) >= stallAfter
	return !stalled && now >= c.holdLeft && c.hadQuorum && c.guard.Kills() && !c.wantsDisarm() && !c.release.yielded && c.oneList()
}

// followSentences takes the sentences of others that were read or stated, and finds which nodes are dead by them.
func (c *Core) followSentences(now boottime.Instant) {
	if c.lun.arbiter != nil {
		for _, s := range c.lun.arbiter.TakeSentences() {
			c.proof.sentencedByLUN(now, &s)
		}
	}
	if c.sentence.condemned { // it claims nobody's death
		return
	}
	for p := range c.proof.peers {
		if w := &c.proof.peers[p]; w.sentenced != 0 && p != c.cfg.Roster.Self {
			c.execute(now, p, w)
		}
	}
}

// execute proves the death of a condemned boot when its time is over, and shows it while nobody speaks against it. A death that
// was handed on gives way to what the node has told itself.
func (c *Core) execute(now boottime.Instant, p int, w *witness) {
	v := &c.proof
	if c.denies(p, w) {
		w.sentenced, w.hearsay = 0, 0
		v.defy(p, w.boot)
		return
	}
	if w.sentenced == w.boot && w.defied != w.boot && w.fires() && !w.twins && (w.death.Boot != w.boot || w.death.handedOn() && w.hearsay == 0) {
		if now < w.over {
			c.fx.Wake = min(c.fx.Wake, w.over)
			c.askSeers(now, p, w)
		} else {
			w.death = Death{Proof: ProofSentence, Boot: w.boot, At: now, Hearsay: w.hearsay > 0}
		}
	}
	if w.death.Proof != ProofSentence {
		return
	}
	if w.death.Hearsay && w.death.Boot == w.boot && (c.merger.Sighted(p) > w.death.At || c.wroteSlot(now, p, &w.death)) {
		v.defy(p, w.boot)
		return
	}
	if spoke, at, _ := c.spoke(p); w.death.Boot == w.boot && (w.lived > w.death.At || spoke == w.boot && at > w.death.At) {
		// P9: it lives on. Either two machines are one boot, or the watchdog did not do what it said.
		w.unfired = w.boot
		v.defy(p, w.boot)
		return
	}
	put(&v.fenced, p, w.death.Boot == w.boot && !w.twins && !w.unmet() && !c.seenByCounted(now, p))
	if !v.fenced.Has(p) && w.death.Boot == w.boot && now.Sub(w.death.At) < trialLimit {
		c.askSeers(now, p, w)
	}
}

// seersLead is how long before its time is over a sentence's seers are asked: long enough for their answers.
const seersLead = 500 * time.Millisecond

// askSeers asks the members for news whose word that they see a condemned node would hold up its FENCED: where samples are taken,
// it is from before the sentence as a rule, and lasts for MaxAge. It makes nothing believed: they are heard like at any other time.
func (c *Core) askSeers(now boottime.Instant, p int, w *witness) {
	var seers roster.Set
	for m := range c.view.Counted.All() {
		st, anchor := c.merger.Statement(m)
		put(&seers, m, m != c.cfg.Roster.Self && st != nil && st.Seen.Has(p) && max(now, w.over).Sub(anchor) <= c.cfg.MaxAge)
	}
	if !seers.IsEmpty() {
		c.askWhether(now, &w.seers, netgossip.SentenceBound(w.term)-seersLead, seers)
	}
}

// denies reports whether a boot has spoken on the LUN since others have handed its sentence on, and bears none.
func (c *Core) denies(p int, w *witness) bool {
	if w.hearsay == 0 || w.sentenced != w.boot {
		return false
	}
	boot, at, sentenced := c.spoke(p)
	return boot == w.boot && at > w.hearsay && !sentenced
}

func (c *Core) spoke(p int) (boot uint64, at boottime.Instant, sentenced bool) {
	if c.lun.arbiter == nil {
		return 0, 0, false
	}
	return c.lun.arbiter.Spoke(p)
}

// wroteSlot reports whether a boot that was called dead has written its slot since. A LUN may have no echo blocks, and who goes by
// another list speaks in none that this node can read.
func (c *Core) wroteSlot(now boottime.Instant, p int, d *Death) bool {
	if c.lun.arbiter == nil {
		return false
	}
	slot := c.lun.arbiter.PeerPause(now, c.cfg.Roster.Name(p), d.At)
	return slot.Moved && slot.Record.Statement.Boot == d.Boot
}

// seenByCounted reports whether a counted member's fresh statement has a peer among the seen: it may have met a later boot.
func (c *Core) seenByCounted(now boottime.Instant, p int) bool {
	for m := range c.view.Counted.All() {
		if m == c.cfg.Roster.Self {
			continue
		}
		if st, anchor := c.merger.Statement(m); st != nil && now.Sub(anchor) <= c.cfg.MaxAge && st.Seen.Has(p) {
			return true
		}
	}
	return false
}

// barred are the peers whose latest boot is condemned, as far as this node knows: it is neither seen nor counted,
// whatever it says (P5).
func (v *prover) barred() (set roster.Set) {
	for p := range v.peers {
		if w := &v.peers[p]; w.sentenced != 0 && w.sentenced == w.boot && w.hearsay == 0 {
			set.Add(p)
		}
	}
	return set
}

// sentencedByLUN takes the sentence of an echo block.
func (v *prover) sentencedByLUN(now boottime.Instant, s *diskquorum.Sentence) {
	for p := range v.peers {
		if v.peers[p].boot == s.Boot && diskquorum.NameDigest(v.roster.Name(p)) == s.Name {
			v.firstHand(now, p, s.Boot, s.Timeout)
		}
	}
}

// sentence begins the time of a boot that is condemned. It is told by that boot itself, which this node has met, and no later
// one; it begins when it has been read, by this node's clock (P4). What is longer than a sentence may be is none (P3).
// A boot that has outlived one is not believed again (P9).
func (v *prover) sentence(now boottime.Instant, p int, boot uint64, timeout time.Duration) {
	w := &v.peers[p]
	if p == v.roster.Self || boot == 0 || boot != w.boot || boot == w.sentenced || boot == w.defied || boot == w.unfired || timeout <= 0 || timeout > netgossip.MaxSentence {
		return
	}
	w.sentenced, w.over, w.term, w.seers = boot, now.Add(netgossip.SentenceBound(timeout)), timeout, trial{since: now}
}

// SentenceState is what is known of a condemned boot.
type SentenceState struct {
	Boot    uint64
	Timeout time.Duration // of its watchdog, as it tells; 0: it tells nothing
	Age     time.Duration // since this node knows of it
	Left    time.Duration // until it has ended for certain; 0: it has
}

// SentenceOf tells of a node whose latest boot is condemned, this node included; nil: it is not, as far as is known.
func (c *Core) SentenceOf(now boottime.Instant, p int) *SentenceState {
	if s := &c.sentence; p == c.cfg.Roster.Self {
		if !s.condemned {
			return nil
		}
		own := &SentenceState{Boot: c.cfg.Boot, Timeout: s.timeout, Age: now.Sub(s.at)}
		if s.timeout > 0 {
			own.Left = max(0, netgossip.SentenceBound(s.timeout)-own.Age)
		}
		return own
	}
	w := &c.proof.peers[p]
	if w.sentenced == 0 || w.sentenced != w.boot || w.unmet() {
		return nil
	}
	bound, left := netgossip.SentenceBound(w.term), w.over.Sub(now)
	return &SentenceState{Boot: w.boot, Timeout: w.term, Age: bound - left, Left: max(0, left)}
}
