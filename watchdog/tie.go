package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// BreakTiesBy sets a tie-breaker whose grants decide equal splits, instead of the LUN and of the reachability of the
// API server. Call it before the first step, and only without a LUN: otherwise one half could get a grant on the LUN
// and the other half a grant from b.
func (c *Core) BreakTiesBy(b tie.Breaker) {
	c.breaker, c.granted = b, true
	c.cfg.API, c.cfg.LUNLostAsksAPI = false, false
	c.guard.Leases = true
}

// Breaker returns the tie-breaker that is asked about equal splits: the LUN, unless BreakTiesBy has set another.
// TieBreaker tells whether its answer decides a split.
func (c *Core) Breaker() tie.Breaker { return c.breaker }

// TieBreaker names the tie-breaker that broke the tie which a reason is about, or that would break a tie; zero: there
// is none.
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

// AsksAPI reports whether the reason is about an undecided tie that waits for an answer of the API server: there is no
// other tie-breaker, or this node cannot use it.
func (c *Core) AsksAPI(r Reason) bool {
	return (r == ReasonSplitPending || r == ReasonSplitUndecided) && c.split.Split == tie.Unavailable
}

// bySlots reports whether the grants that decide a tie are on the LUN. Then the half that gets the next grant reads in
// the slots which guards were given up, before it concludes a death.
func (c *Core) bySlots() bool { return c.breaker == tie.Breaker(&c.lun) }

// followMajority keeps the clock of L8, which only a counted majority restarts.
func (c *Core) followMajority(now boottime.Instant) {
	if c.outcome == netgossip.Majority {
		c.lastUntil = c.view.QuorumUntil
		c.holdUntil, c.tieSince = 0, 0
		return
	}
	if c.lastUntil != 0 {
		// The evidence ran out at lastUntil, or was withdrawn now. A loop that was delayed must not count from its own
		// late step.
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

// apiIdleAge is how long an answer of the API server is valid while none is needed. apiFirst is how long it stays valid
// once one is needed, until the first fresh answer has come or is overdue. Both only affect this node's statement and
// which half tries first; no verdict depends on them.
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

// APIChecked records the result of a probe of the Kubernetes API that began at the given instant.
func (c *Core) APIChecked(reachable bool, at boottime.Instant) {
	c.api.asked, c.api.reachable, c.api.at = true, reachable, at
}

// API returns the latest result, and when its probe began.
func (c *Core) API() (reachable bool, at boottime.Instant) { return c.api.reachable, c.api.at }

// followAPI decides whether the API server should be asked often: there is no majority, or may soon be none. While a
// majority is safe, the answer is not needed.
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

// until returns the end of the time in which the latest answer counts for a verdict.
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

// agreement holds what this node knows of the terms by which the members break ties.
//
// If the two halves of an equal split use different LUNs, or one half a LUN and the other the API server, both can win.
// So a half arbitrates a tie only if all of its members agree (lease.md T1 to T4). A member agrees if, since it adopted
// its terms, it has heard from a majority of the roster, itself included, that they use the same terms.
//
// Why at most one half can agree: suppose that both halves agree, on different terms, and let i be the node that
// adopted its terms last. A majority is one more than half, so a node j in the other half has confirmed i's terms after
// i adopted them. j used i's terms when it confirmed them, and uses others now, so j has adopted its terms after i.
// That contradicts the choice of i.
//
// The argument relies on this: if a node has left its terms and adopts them again, its earlier confirmations do not
// count. So confirmations are stored in the file with the terms. Other terms begin without any confirmation, and are
// neither announced nor used before they are in the file. If a LUN breaks ties, a confirmation counts only if its
// sender's slot appears on the receiver's LUN: a clone of a LUN has the same name.
type agreement struct {
	own   netgossip.Terms
	since boottime.Instant // confirmations from before this moment do not count
	heard roster.Set       // members that use the same terms
	unfit roster.Set       // members whose last statement has other terms; empty while own are not settled
}

// SetTerms sets the terms that the node uses and states. They must be in the file, or unsettled. heard lists the
// members that have confirmed these terms since the node adopted them, as the file has it. A core for which SetTerms is
// never called needs no agreement: it has only one way to break ties.
func (c *Core) SetTerms(now boottime.Instant, own netgossip.Terms, heard roster.Set) {
	c.terms = agreement{own: own, since: now, heard: heard}
}

// Terms returns the terms that the node uses.
func (c *Core) Terms() netgossip.Terms { return c.terms.own }

// TermsHeard returns the members that have confirmed to this node that they use the same terms, and those whose last
// statement has other terms.
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
		// Unsettled terms do not count as different: the terms of each node are unsettled for a moment at its start.
		put(&a.unfit, p, a.own.Settled() && st.Terms.Settled() && !a.own.Fit(st.Terms))
		if !a.heard.Has(p) && a.own.Fit(st.Terms) && c.writesHere(p, st) {
			a.heard.Add(p)
		}
	}
}

// writesHere reports whether a member uses the same LUN as this node: the token that it states must be in its slot
// there, and the slot must have been seen to change. A token changes with each start of its agent, so the record is not
// from before that start.
func (c *Core) writesHere(p int, st *netgossip.Statement) bool {
	if c.terms.own.By&netgossip.BreaksByLUN == 0 {
		return true
	}
	return c.lun.arbiter != nil && !st.Token.IsZero() && c.lun.arbiter.Shows(c.cfg.Roster.Name(p), st.Token)
}

// termsWait reports whether a confirmation is missing that a read of the slots may complete. If the table were read as
// seldom as in a settled group, a new group would have no tie-break for its first twenty seconds.
func (c *Core) termsWait() bool {
	a := &c.terms
	return a.own.By&netgossip.BreaksByLUN != 0 && a.own.Settled() && !c.view.Seen.And(c.rosters.expected).Minus(a.heard).Minus(a.unfit).IsEmpty()
}

// unitedHalf reports whether all members of the view agree and use the same terms, so that a tie may be arbitrated for
// them.
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
