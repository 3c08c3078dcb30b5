package watchdog

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// agreement is what this node knows of the terms on which the members break ties.
//
// Two halves of an equal split that go by two LUNs, or one by a LUN and one by the API server,
// can both win. So a tie is arbitrated only by a half all of whose members agree (lease.md T1 to
// T5): each has the word of a majority of the roster, itself included, that it goes by the same
// terms, given since it took these up.
//
// Why one half at most then can: let both be of one mind, on different terms, and of all their nodes
// let i be the one that took up its terms last. A majority is one more than half, so i has
// the word of a j in the other half, given after i began. Then j has begun after i: it went
// by i's terms when it gave the word, and by others now. That contradicts the choice of i.
//
// What the argument rests on: a node never goes back to the words that it had for terms which it has left
// meanwhile. So these words are on file with the terms; other terms begin without any, and are
// neither told nor gone by before they are on file. Where a LUN breaks ties a word counts only
// if the speaker's slot shows up on the LUN of the listener: the name of a LUN can be that of a clone.
type agreement struct {
	own   netgossip.Terms
	since boottime.Instant // words from before do not count
	heard roster.Set       // who goes by the same terms
	unfit roster.Set       // who last said to go by others; nobody while own are not settled
}

// SetTerms makes these the terms that the node goes by and tells. They must be on file, or
// unsettled; heard are the members whose word it had when it last went by them without interruption.
// A core that was never told any asks for no agreement, as versions before this one.
func (c *Core) SetTerms(now boottime.Instant, own netgossip.Terms, heard roster.Set) {
	c.terms = agreement{own: own, since: now, heard: heard}
}

// Terms are those that the node goes by.
func (c *Core) Terms() netgossip.Terms { return c.terms.own }

// TermsHeard are the members whose word this node has that they go by the same terms, and
// those who last said to go by others.
func (c *Core) TermsHeard() (same, others roster.Set) { return c.terms.heard, c.terms.unfit }

// Agreed reports whether this node has the word of a majority of the list in force.
func (c *Core) Agreed() bool {
	a := &c.terms
	if !a.own.Stated() {
		return true
	}
	heard := a.heard
	heard.Add(c.cfg.Roster.Self)
	n := c.rosters.base().Size()
	if c.cfg.Succession != nil {
		heard = heard.And(c.rosters.membersOf(c.rosters.base()))
	}
	return a.own.Settled() && 2*heard.Len() > n
}

// followTerms takes the words of those who are in contact.
func (c *Core) followTerms() {
	a := &c.terms
	if !a.own.Stated() {
		return
	}
	for p := range c.view.Seen.All() {
		st, at := c.merger.Statement(p)
		if st == nil || at <= a.since {
			continue
		}
		// Nothing differs from terms that are not settled: each node's are so for a moment at its start.
		put(&a.unfit, p, a.own.Settled() && st.Terms.Settled() && !a.own.Fit(st.Terms))
		if !a.heard.Has(p) && a.own.Fit(st.Terms) && c.writesHere(p, st) {
			a.heard.Add(p)
		}
	}
}

// writesHere reports whether a member uses the LUN that this node uses: the token that it
// states is to be read in its slot there, which was seen to change. A token moves on with
// each start of its agent, so the record is not of a time before.
func (c *Core) writesHere(p int, st *netgossip.Statement) bool {
	if c.terms.own.By&netgossip.BreaksByLUN == 0 {
		return true
	}
	return c.lun.arbiter != nil && !st.Token.IsZero() && c.lun.arbiter.Shows(c.cfg.Roster.Name(p), st.Token)
}

// termsWait reports whether a word is missing that the slots may complete. A table that is read as
// seldom as in a settled group would leave a new one without a tie-break for its first twenty seconds.
func (c *Core) termsWait() bool {
	a := &c.terms
	return a.own.By&netgossip.BreaksByLUN != 0 && a.own.Settled() && !c.view.Seen.And(c.rosters.expected).Minus(a.heard).Minus(a.unfit).IsEmpty()
}

// unitedHalf reports whether all of the view agree and go by the same terms, so that a tie may be
// arbitrated for them.
func (c *Core) unitedHalf() bool {
	if !c.terms.own.Stated() {
		return true
	}
	if !c.Agreed() {
		return false
	}
	for p := range c.view.Counted.All() {
		if p == c.cfg.Roster.Self {
			continue
		}
		st, _ := c.merger.Statement(p)
		if st == nil || !c.terms.own.Fit(st.Terms) || st.Terms.Stated() && !st.Agreed {
			return false
		}
	}
	return true
}
