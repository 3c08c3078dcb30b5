package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Sentencing configures when a node that has lost condemns itself (lease.md P1).
type Sentencing struct {
	// After is how long all grounds for a sentence must have been true, counted from the end of the last majority's
	// evidence; 0: this node never condemns itself.
	After   time.Duration
	Timeout time.Duration // T, as configured: the watchdog's timeout from the sentence on, also after an obeyed order
	Strike  time.Duration // a node that takes itself down first waits this long for its announcement to reach the LUN
	LUNLoss bool          // LUNAnd: a node that alone has lost the LUN condemns itself, too (E3)
}

// judgement holds the grounds for condemning this boot, and those against it.
type judgement struct {
	majority boottime.Instant // when the evidence of the last majority ended
	view     roster.Set       // the members that this node counts
	quiet    boottime.Instant // since when view has not changed and no other node was heard
	since    boottime.Instant // since when each check has shown that others live without this node; zero: they do not
	round    uint32           // the round of echo-block reads at since
	loss     lossProof
}

// rounds is the number of consecutive reads, including the first, that must show that others live without this node.
const rounds = 3

// SentenceOf returns the sentence of a node, which may be this node, if its latest boot is condemned; nil: no sentence
// is known.
func (c *Core) SentenceOf(now boottime.Instant, p int) *SentenceState {
	if p != c.cfg.Roster.Self {
		return c.proof.sentenceOf(now, p)
	}
	s := &c.sentence
	if !s.condemned {
		return nil
	}
	own := &SentenceState{Boot: c.cfg.Boot, Timeout: s.timeout, Age: now.Sub(s.at)}
	if s.timeout > 0 {
		own.Left = max(0, netgossip.SentenceBound(s.timeout)-own.Age)
	}
	return own
}

// Inherit records that a countdown of at most [netgossip.MaxSentence] runs as the agent starts: an earlier agent has
// condemned this boot. The agent opens no watchdog and counts nobody. The countdown alone is not a reason to announce a
// sentence: its timeout may not have been read back (P2), or it may belong to another program, which goes on feeding. A
// sentence that the earlier agent has announced on the LUN is announced again.
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

// judge decides whether this node condemns its boot. It uses the decision of the step before and the present knowledge,
// and runs before this step states or does anything. Once condemned, nothing feeds, arms or disarms the watchdog, no
// grant is held or taken, and no statement of this node counts for others (P2). The announcement comes later, see
// Sentenced. If judge returns true, the caller computes again whom the node sees and counts.
//
// Invariant: a node does not condemn itself because of silence. An outage of all networks starves every node at once,
// and all of them would condemn themselves. The node needs evidence of a side that lives without it, so every condemned
// node leaves such a side behind.
func (c *Core) judge(now boottime.Instant, in proverInput) (condemned bool) {
	s, j := &c.sentence, &c.judgement
	c.proof.in = in
	if a := c.lun.arbiter; a != nil && a.OwnSentence() > 0 && s.timeout == 0 && (s.inherited || !s.condemned) {
		c.Inherit(now, a.OwnSentence()) // an earlier agent of this boot has announced the sentence
		s.timeout = a.OwnSentence()
		return true
	}
	if s.condemned {
		return false
	}
	c.followQuiet(now)
	if c.proof.obeys(now) {
		s.ordered = c.proof.orders.by
		c.condemn(now)
		return true
	}
	if c.judgeLoss(now) {
		c.condemn(now)
		return true
	}
	if !c.mayCondemn(now) {
		j.since = 0
		return false
	}
	others := c.lun.arbiter.OthersLive(now, c.rosters.quorum, c.proof.parted())
	switch {
	case others.Dated == 0:
		j.since = 0
	case j.since == 0:
		j.since, j.round = now, others.Round
	case others.Dated > j.since && others.Round-j.round >= rounds-1 && c.steady(now):
		c.condemn(now)
		return true
	}
	return false
}

func (c *Core) condemn(now boottime.Instant) {
	c.sentence.condemned, c.sentence.at = true, now
	if c.lun.arbiter != nil { // a node that obeys an order may have no LUN
		c.lun.arbiter.Condemn()
	}
}

// followQuiet records since when contact has not changed. If a member of this side condemns itself, that is not a
// change of contact: otherwise each such member would wait for the one before it.
func (c *Core) followQuiet(now boottime.Instant) {
	j := &c.judgement
	if c.rosters.tally(c.view.Counted) == netgossip.Majority {
		j.majority = max(j.majority, c.view.QuorumUntil)
	}
	others := c.rosters.expected.Minus(c.view.Counted).Minus(c.proof.parted())
	if c.view.Counted != j.view.Minus(c.proof.parted()) || c.view.Seen.Intersects(others) {
		j.quiet = now
	}
	j.view = c.view.Counted
	for p := range others.All() {
		j.quiet = max(j.quiet, c.merger.Sighted(p)) // here a sign of life in one direction counts as contact
	}
}

// steady reports whether contact has not changed for long enough, and the last majority is at least as long ago.
func (c *Core) steady(now boottime.Instant) bool {
	after := c.cfg.Sentence.After
	due := max(c.judgement.quiet, c.judgement.majority).Add(after)
	if now < due {
		c.fx.Wake = min(c.fx.Wake, due)
	}
	return now >= due
}

// mayCondemn checks all conditions of P1 except the evidence.
func (c *Core) mayCondemn(now boottime.Instant) bool {
	d := &c.fx.Decision
	lost := d.Action == Starve && (d.Reason == ReasonIsolated || d.Reason == ReasonSplitLost) // decided by a LUN: no other tie-breaker is used together with one
	return lost && c.rosters.tally(c.view.Counted) != netgossip.Majority && c.mayLose(now)
}

// mayLose checks the conditions of P1 that apply to all kinds of evidence.
func (c *Core) mayLose(now boottime.Instant) bool { return c.mayEnd(now) && c.Barred() == BarNone }

// mayEnd reports whether this node's own state allows it to condemn its boot, on its own evidence or by an order.
func (c *Core) mayEnd(now boottime.Instant) bool {
	stalled := c.stepped != 0 && now.Sub(c.stepped) >= stallAfter
	return !stalled && now >= c.holdLeft && c.hadQuorum && c.guard.Kills() && !c.wantsDisarm() && !c.release.yielded && c.rosters.oneList()
}

// lossProof holds the evidence that this node has lost the LUN while the others have it (lun.mode: and, lease.md P1,
// E3).
type lossProof struct {
	since  boottime.Instant // since when each step has shown that others live with the LUN; zero: they do not
	mark   boottime.Instant // when all of them had shown it for the latest time
	rounds int              // how often they have shown it again
}

// judgeLoss reports whether this node condemns its boot because it alone has lost the LUN. The node already starves.
// The others state over the networks that they have the LUN, and are a majority without this node.
//
// Invariant: that this node has lost the LUN is not enough. If the LUN fails for all, each node has lost it; the others
// then go on, and state that they have lost it, too. Nor is it enough that a quorum has the LUN: if all of them are
// connected through one hub node only, each may count nobody except the hub.
func (c *Core) judgeLoss(now boottime.Instant) bool {
	l := &c.judgement.loss
	d := &c.fx.Decision
	if !c.cfg.Sentence.LUNLoss || d.Action != Starve || d.Reason != ReasonLUNLost || c.healthy || !c.mayLose(now) {
		*l = lossProof{}
		return false
	}
	switch dated := c.othersHaveLUN(now); {
	case dated == 0:
		*l = lossProof{}
		return false
	case l.since == 0:
		l.since, l.mark = now, now
	case dated > l.mark:
		l.rounds, l.mark = l.rounds+1, now
	}
	// At least MaxAge: a node that was fed when it made its latest statement has then not starved for as long as this
	// node.
	due := max(l.since, c.judgement.quiet).Add(max(c.cfg.Sentence.After, c.cfg.MaxAge))
	if now < due {
		c.fx.Wake = min(c.fx.Wake, due)
		return false
	}
	return l.rounds >= rounds-1
}

// othersHaveLUN looks for a quorum, without this node, whose members all state that they have the LUN, are fed, and
// count all of this quorum. It returns the instant after which all of their statements were composed; 0: there is no
// such quorum.
func (c *Core) othersHaveLUN(now boottime.Instant) boottime.Instant {
	var can roster.Set
	for p, st := range c.merger.Said(c.view.Counted, now.Add(-c.cfg.MaxAge)) {
		put(&can, p, st.LUNHealthy && st.Feeding && !st.Stopping && st.Sentence == 0 &&
			st.RosterDigest == c.cfg.Roster.Digest && st.RosterEpoch == c.cfg.Roster.Epoch)
	}
	var found boottime.Instant
	for _, st := range c.merger.Said(can, 0) {
		set := st.View.And(can)
		if set.Len() < c.rosters.quorum {
			continue
		}
		first := boottime.Never
		for m := range set.All() {
			other, anchor := c.merger.Statement(m)
			if !set.Minus(other.View).IsEmpty() {
				first = 0
				break
			}
			first = min(first, anchor)
		}
		found = max(found, first)
	}
	return found
}

// Bar is the reason why this node would not condemn itself, whatever it lost (an order is not affected). The others
// then learn of its death by time alone. Its strings are the vocabulary of logs and metrics.
type Bar uint8

const (
	BarNone     Bar = iota
	BarOff          // the configuration has no sentences
	BarNoHold       // the node cannot hold by the LUN: it has no LUN, or a policy without holds
	BarWatchdog     // its watchdog cannot count down a sentence, see briefly
)

var barNames = [...]string{BarNone: "none", BarOff: "off", BarNoHold: "no_hold", BarWatchdog: "watchdog"}

// String returns the bar's name in logs, metrics and the API.
func (b Bar) String() string {
	if int(b) >= len(barNames) {
		return "invalid"
	}
	return barNames[b]
}

// Barred returns the first obstacle that keeps this node from condemning itself.
func (c *Core) Barred() Bar {
	switch {
	case c.cfg.Sentence.After <= 0:
		return BarOff
	case !c.Holds():
		return BarNoHold
	case !c.briefly():
		return BarWatchdog
	}
	return BarNone
}

// strikeAfter is how long a node must have starved before it is taken down at once, if that is configured. By then,
// late evidence has arrived, and the loss of quorum is not a brief one.
const strikeAfter = time.Second

// mayStrike reports whether there is a reason to take a starving node down. If the LUN shows who lives, silence is not
// a reason: the failure of a switch that carries all networks would take down the whole group.
func (c *Core) mayStrike(now boottime.Instant) bool {
	if c.sentence.condemned || c.Barred() == BarNone {
		return c.mayExecute(now)
	}
	if c.hears() {
		return c.hold.certain(c.rosters.window())
	}
	due := c.starving.Add(strikeAfter)
	if now < due {
		c.fx.Wake = min(c.fx.Wake, due)
	}
	return now >= due
}

// followStrike decides whether this node may be taken down now.
//
// Invariant: only a node that its peers take for dead anyway is struck: a node that starves for want of quorum with its
// watchdog armed. So a node is not struck if its watchdog is disarmed or was never armed since boot, if its policy lets
// it live, or if the node was frozen and has not heard its peers since.
func (c *Core) followStrike(now boottime.Instant) {
	d := &c.fx.Decision
	c.fx.Strike = false
	if d.Action != Starve || d.Reason == ReasonStarting || !c.hadQuorum || !c.guard.Kills() || c.wantsDisarm() || now < c.holdLeft {
		c.starving = 0
		return
	}
	if c.starving == 0 {
		c.starving = now
	}
	c.fx.Strike = c.mayStrike(now)
}

// mayExecute reports whether a condemned node may be taken down: its announcement is on the LUN, so the others know
// when it has ended, or the announcement has had the time of an I/O to get there. If nodes condemn themselves, only a
// condemned node is struck (P8).
func (c *Core) mayExecute(now boottime.Instant) bool {
	s := &c.sentence
	if !s.condemned {
		return false
	}
	due := s.at.Add(c.cfg.Sentence.Strike)
	if now < due {
		c.fx.Wake = min(c.fx.Wake, due)
	}
	return now >= due || c.lun.arbiter != nil && c.lun.arbiter.SentenceLanded()
}
