package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// BreakTiesBy hands over what decides equal splits by its grants, in place of the LUN and of reaching the API server.
// Call it before the first step, and only without a LUN: one half could get a grant on the LUN and the other half one
// from b.
func (c *Core) BreakTiesBy(b tie.Breaker) {
	c.breaker, c.granted = b, true
	c.cfg.API, c.cfg.LUNLostAsksAPI = false, false
	c.guard.Leases = true
}

// Breaker is what is asked about equal splits: the LUN, unless there is another. TieBreaker says whether its answer
// decides a split.
func (c *Core) Breaker() tie.Breaker { return c.breaker }

// TieBreaker names what has broken the tie that a reason speaks of, or would break one; zero: nothing.
func (c *Core) TieBreaker(r Reason) tie.Name {
	api := tie.Name{Setting: "kubernetes", Status: "api"}
	switch {
	case r == ReasonAPIReachable || r == ReasonAPIUnreachable || c.AsksAPI(r):
		return api
	case c.granted:
		return c.breaker.Name()
	case c.cfg.API:
		return api
	default:
		return tie.Name{}
	}
}

// AsksAPI reports whether a tie that is not decided yet, as the reason says, waits for an answer of the API server:
// nothing else decides, or this node cannot use what does.
func (c *Core) AsksAPI(r Reason) bool {
	return (r == ReasonSplitPending || r == ReasonSplitUndecided) && c.split.Split == tie.Unavailable
}

// bySlots reports whether the grants that decide a tie are on the LUN. Then what the slots say of a guard reaches the
// half that is granted next, and that half looks there before it counts on a death.
func (c *Core) bySlots() bool { return c.breaker == tie.Breaker(&c.lun) }

// followMajority keeps the clock of L8: it is restarted by a counted majority only.
func (c *Core) followMajority(now boottime.Instant) {
	if c.outcome == netgossip.Majority {
		c.lastUntil = c.view.QuorumUntil
		c.holdUntil, c.tieSince = 0, 0
		return
	}
	if c.lastUntil != 0 {
		// The evidence ran out at lastUntil, or was withdrawn now; a loop that was
		// held up must not count from its own late awakening.
		lost := min(c.lastUntil, now)
		c.holdUntil, c.tieSince, c.lastUntil = lost.Add(c.cfg.Arbitrate), lost, 0
		c.hold.lost = lost
	}
	if c.tieSince == 0 && c.outcome == netgossip.EqualSplit {
		c.tieSince = now
	}
}

// arbitrate asks the tie-breaker, even while there is no tie: the tie-breaker has to know the earlier views.
func (c *Core) arbitrate(now boottime.Instant) {
	c.asked = tie.Input{
		View: c.view.Counted, Tie: c.outcome == netgossip.EqualSplit && c.united, TieSince: c.tieSince, Quorum: c.rosters.quorum,
		Stop: c.guarding.leaving(), Released: c.stopping && c.release.done, Horizon: c.guard.Horizon,
	}
	out := c.breaker.Step(now, &c.asked)
	c.split = *out
	c.fx.Relay = out.Relay
	c.fx.Wake = min(c.fx.Wake, out.Wake)
	c.healthy, c.fx.Ops, c.fx.Lock, c.fx.Attempt = false, nil, -1, nil
	if io := c.lun.latest; io != nil {
		c.healthy, c.fx.Ops, c.fx.Lock, c.fx.Attempt = io.Healthy, io.Ops, io.Lock, io.Ended
	}
}

// apiIdleAge is how long an answer of the API server is valid while none is needed. apiFirst is how long it stays
// valid once one is needed, until the first fresh answer has come or is overdue. Both only affect what this node
// states, and which half goes first; no verdict depends on them.
const (
	apiIdleAge = 3 * time.Minute
	apiFirst   = 2 * time.Second
)

type apiState struct {
	asked     bool
	reachable bool
	at        boottime.Instant
	urgent    boottime.Instant // since when answers may be needed soon; zero: they are not
}

// APIChecked takes the result of a probe of the Kubernetes API that began at the instant.
func (c *Core) APIChecked(reachable bool, at boottime.Instant) {
	c.api.asked, c.api.reachable, c.api.at = true, reachable, at
}

// API is the latest result, and when its probe began.
func (c *Core) API() (reachable bool, at boottime.Instant) { return c.api.reachable, c.api.at }

// followAPI finds out whether the API server should be asked often: where there is no majority, or may soon be none.
// While a majority is safe nobody needs the answer.
func (c *Core) followAPI(now boottime.Instant) {
	n, counted := c.rosters.base().Size(), c.view.Counted.Len()
	urgent := c.outcome != netgossip.Majority || counted < n && counted-n/2 <= max(1, n/10)
	switch {
	case !urgent:
		c.api.urgent = 0
	case c.api.urgent == 0:
		c.api.urgent = now
	}
	c.fx.AskAPI = urgent
}

// until is how long the latest answer counts for a verdict.
func (a *apiState) until(maxAge time.Duration) boottime.Instant {
	if !a.asked {
		return 0
	}
	return a.at.Add(maxAge)
}

// tells reports whether this node states that it reaches the API server.
func (a *apiState) tells(now boottime.Instant, maxAge time.Duration) bool {
	if !a.asked || !a.reachable {
		return false
	}
	lately := now < a.at.Add(apiIdleAge) && (a.urgent == 0 || now < a.urgent.Add(apiFirst))
	return lately || now < a.until(maxAge)
}

// agreement is what this node knows of the terms on which the members break ties.
//
// Two halves of an equal split that use two LUNs, or one a LUN and one the API server,
// can both win. So a tie is arbitrated only by a half all of whose members agree (lease.md T1 to
// T4): each has heard from a majority of the roster, itself included, that they use the same terms, since it adopted
// these.
//
// Why at most one half can agree: let each half agree, on different terms, and of all their nodes let i be the one that
// adopted its terms last. A majority is one more than half, so i has the word of a j in the other half, given after i
// adopted its terms. Then j has adopted its terms after i: it used i's terms when it gave the word, and uses others
// now. That contradicts the choice of i.
//
// The argument relies on this: a node never goes back to words that it had for terms which it has left meanwhile. So
// words are on file with the terms; other terms begin without any, and are neither announced nor used before they are
// on file. Where a LUN breaks ties a word counts only if the speaker's slot shows up on the LUN of the listener: the
// name of a LUN can be that of a clone.
type agreement struct {
	own   netgossip.Terms
	since boottime.Instant // words from before do not count
	heard roster.Set       // who uses the same terms
	unfit roster.Set       // who last said that they use others; nobody while own are not settled
}

// SetTerms makes these the terms that the node uses and states. They must be on file, or unsettled; heard are the
// members whose word the node had when it last used these terms without interruption. A core that never got any terms
// needs no agreement: used alone, it has one way to break ties.
func (c *Core) SetTerms(now boottime.Instant, own netgossip.Terms, heard roster.Set) {
	c.terms = agreement{own: own, since: now, heard: heard}
}

// Terms are those that the node uses.
func (c *Core) Terms() netgossip.Terms { return c.terms.own }

// TermsHeard are the members that have said to this node that they use the same terms, and those that last said that
// they use others.
func (c *Core) TermsHeard() (same, others roster.Set) { return c.terms.heard, c.terms.unfit }

// Agreed reports whether a majority of the list in force has confirmed this node's terms.
func (c *Core) Agreed() bool {
	a := &c.terms
	if !a.own.Stated() {
		return true
	}
	base, heard := c.rosters.base(), a.heard
	heard.Add(c.cfg.Roster.Self)
	heard = heard.And(c.rosters.membersOf(base))
	return a.own.Settled() && 2*heard.Len() > base.Size()
}

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
		// No terms differ from terms that are not settled: the terms of each node are unsettled for a moment at its
		// start.
		put(&a.unfit, p, a.own.Settled() && st.Terms.Settled() && !a.own.Fit(st.Terms))
		if !a.heard.Has(p) && a.own.Fit(st.Terms) && c.writesHere(p, st) {
			a.heard.Add(p)
		}
	}
}

// writesHere reports whether a member uses the same LUN as this node: the token that it states must be in its slot
// there, and the slot must have been seen to change. A token moves on with each start of its agent, so the record is
// not from before that start.
func (c *Core) writesHere(p int, st *netgossip.Statement) bool {
	if c.terms.own.By&netgossip.BreaksByLUN == 0 {
		return true
	}
	return c.lun.arbiter != nil && !st.Token.IsZero() && c.lun.arbiter.Shows(c.cfg.Roster.Name(p), st.Token)
}

// termsWait reports whether a word is missing that the slots may complete. Reading the table as seldom as in a settled
// group would leave a new group without a tie-break for its first twenty seconds.
func (c *Core) termsWait() bool {
	a := &c.terms
	return a.own.By&netgossip.BreaksByLUN != 0 && a.own.Settled() && !c.view.Seen.And(c.rosters.expected).Minus(a.heard).Minus(a.unfit).IsEmpty()
}

// unitedHalf reports whether all of the view agree and use the same terms, so that a tie may be
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
		if st == nil || !c.terms.own.Fit(st.Terms) || !st.Agreed {
			return false
		}
	}
	return true
}
