package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// situation is what deaths are judged by at this moment.
func (c *Core) situation(now boottime.Instant) *proverInput {
	d := &c.fx.Decision
	won := d.Reason == ReasonSplitWon
	c.known = proverInput{
		View: c.view, Heard: c.voices.heard, Restarting: c.publication.held,
		Apart: c.apart(), Condemned: c.sentence.condemned, Unfired: c.unfired,
		Sole: c.soleSide(now), Leads: c.leads(), Majority: d.Quorum && c.outcome == netgossip.Majority,
		Granted: won && c.guard.Leases && !c.split.Relayed, // who lives by another holder's writes does not see what the victim wrote last
		Won:     won, Until: d.Until, BySlots: c.bySlots(), Unfit: c.unfit(now),
	}
	return &c.known
}

// soleSide reports whether nobody else can live: this node counts a majority, or is in the half that a grant names.
//
// Invariant: in an equal split that is not decided yet, or that is left to who reaches the API server, both halves may live.
// Neither believes that the other one is dead; it would be told so by who sees one half alone.
func (c *Core) soleSide(now boottime.Instant) bool {
	if d := &c.fx.Decision; !d.Quorum || d.Action == Hold || c.apart() {
		return false
	}
	return c.outcome == netgossip.Majority || c.granted && c.split.Split == tie.Won && c.split.Until > now
}

// leads reports whether this node counts a majority, not half of an equal split.
func (c *Core) leads() bool {
	return !c.apart() && c.fx.Decision.Quorum && c.fx.Decision.Action == Feed && c.rosters.mostOfEach(c.view.Counted)
}

// unfit is why this node does not obey an order, by what it knows of itself; 0: it may.
func (c *Core) unfit(now boottime.Instant) Forbidding {
	need := 2 * (c.cfg.Sentence.Timeout + 500*time.Millisecond) // as a sentence's, it has to fit into the horizon that others reckon with
	switch {
	case !c.cfg.Orders || c.cfg.Sentence.Timeout <= 0 || !c.briefly() || c.set < need:
		return ForbiddenOff
	case !c.mayEnd(now): // also under maintenance, and in a dry run
		return ForbiddenUnguarded
	case !c.rosters.heeding() || c.lun.arbiter != nil && !c.lun.arbiter.Heeding():
		return ForbiddenOld
	case !c.leads():
		return ForbiddenNoMajority
	}
	return 0
}

// SentenceOf tells of a node whose latest boot is condemned, this node included; nil: it is not, as far as is known.
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

// followDeaths tells by the LUN whether this node lives, finds who is dead, and takes and gives orders; gap: claims begin again.
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

// Deaths is what is known of who is dead, and takes what is told of it.
func (c *Core) Deaths() *Prover { return &c.proof }
