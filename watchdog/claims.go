package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	// claimAge is how old a statement may be whose claims count. The argument of Prover needs no such limit: a death
	// that was once proven stays true. But the node may be back meanwhile, with a boot that this node has not met.
	claimAge = 5 * time.Second
	// quiet is how long a peer has been silent when a statement gives its due. A peer that is heard in one direction
	// starts its due again with each packet, and a new statement for each packet would be useless traffic.
	quiet = 2 * time.Second
	// settle is added to what a claim of an agent without dues covers: how far its statement may lag behind the step
	// that made it. For agents that do not read dues, Lost is what those agents state.
	//
	// Lost, this constant and the branch for it in dueBy can go when no supported version has to run beside an agent
	// without dues (docs/adr/0084-dated-claims.md).
	settle = 2 * time.Second
	// undated is how much longer than the horizon a claim in Lost covers.
	undated = claimAge + settle
)

// ProofDelay is how long after a victim's horizon its death is proven by time in a group of up to ten nodes, from when
// the last member of a majority lost it. docs/performance.md has what was measured, also for larger groups.
const ProofDelay = 1500 * time.Millisecond

// claimant is a member with claims that count, as of this step.
type claimant struct {
	member    int
	statement *netgossip.Statement
	until     boottime.Instant // the last instant for which the statement is proven
}

// span is the time for which a member's claim holds: the victim did not run at any instant of it, if enough other
// members claim the same of that instant.
type span struct {
	due, until boottime.Instant
	undated    bool // by an agent that states no dues
}

// reckoning holds what this node claims itself, and the scratch of conclude.
type reckoning struct {
	missing roster.Set     // guarded peers that this node has lost: each has a due, which may be in the future
	dues    netgossip.Dues // of these, for the statement
	lost    roster.Set     // those of them that agents without dues would claim now
	// shown holds the peers among the seen in the step before, and in the one before that. A statement is given out
	// until the effects of the next step are carried out, which happens before the step after it begins.
	shown [2]roster.Set

	by    []claimant
	spans []span
	at    []boottime.Instant
}

// claimNothing withdraws this node's claims: they begin again with the next step.
func (c *reckoning) claimNothing() {
	c.missing, c.lost, c.dues = roster.Set{}, roster.Set{}, netgossip.Dues{}
}

// readClock relates a peer's clock to this node's, for the dues of its statement. The peer's clock showed that before
// the answer came. So a due that is dated by it is late by the time that the answer was on its way and waited here, and
// never early. Of several answers with one statement the quickest counts: in the length of a horizon two clocks drift
// apart by less than the margin that each horizon contains.
func (w *witness) readClock(now, anchor, theirs boottime.Instant) {
	w.read = anchor
	if ahead := now.Sub(theirs); theirs != 0 && (!w.dated || ahead < w.ahead) {
		w.ahead, w.dated = ahead, true
	}
}

// since is the last moment at which this node may have seen a peer, may have stated to see it, or did not live.
func (v *Prover) since(w *witness) boottime.Instant { return max(w.unseen, w.stated, v.alone) }

// claim renews this node's claim of a peer's death.
func (v *Prover) claim(now boottime.Instant, p int) {
	w := &v.peers[p]
	missed := now.Sub(v.since(w))
	mine := missed >= quiet && v.guarded.Has(p)
	put(&v.missing, p, mine)
	put(&v.lost, p, mine && missed >= w.statement.Guard.Horizon+undated)
}

// due is the instant from which on this node claims that a missing peer does not run.
func (v *Prover) due(p int) boottime.Instant {
	w := &v.peers[p]
	return v.since(w).Add(w.statement.Guard.Horizon)
}

// date fills in the dues of the statement.
func (v *Prover) date() {
	v.dues = netgossip.Dues{}
	for p := range v.missing.All() {
		v.dues.Add(v.since(&v.peers[p]), v.peers[p].statement.Guard.Horizon, p)
	}
}

// dueBy returns the due of a peer in the statement of a member, by this node's clock, and the horizon that the member
// knows; ok is false if the member does not claim it. An agent without dues claims it once it has missed the peer for
// undated beyond the horizon, and states no horizon. At the latest when this node first held that statement, that had
// lasted for as long, less settle.
func (v *Prover) dueBy(m int, st *netgossip.Statement, p int) (at boottime.Instant, horizon time.Duration, ok bool) {
	w := &v.peers[m]
	if d := st.Dues.Of(p); d != nil && w.dated {
		return d.Since.Add(d.Horizon + w.ahead), d.Horizon, true
	}
	return w.held.Add(-claimAge), 0, st.Lost.Has(p)
}

// fresh reports whether the claims of a statement count. They do not count while the peer also uses another list: the
// peer starts its claims again (see doubt) only when it has left that list.
func (v *Prover) fresh(st *netgossip.Statement) bool {
	stands := st.Stands()
	return goesBy(&stands, v.lists.base())
}

// collect finds the counted members with claims that count, and returns the peers that they or this node claim.
func (v *Prover) collect(now boottime.Instant) (claimed roster.Set) {
	claimed, v.by = v.missing, v.by[:0]
	recent := now.Add(-claimAge)
	since := recent
	if !v.missing.IsEmpty() {
		since = 0 // what an older statement claims shows whom to ask, and when
	}
	for m, st := range v.merger.Said(v.in.View.Counted, since) {
		if st.Dues[0].Horizon == 0 && st.Lost.IsEmpty() || !v.fresh(st) {
			continue
		}
		_, until := v.merger.Statement(m)
		v.by = append(v.by, claimant{m, st, until})
		if until >= recent {
			claimed = claimed.Union(st.Lost).Union(st.Dues.Who())
		}
	}
	return claimed
}

// gather finds the spans of all claims of a peer's death, however old. Each begins after the longest horizon of all.
// Where fewer than need are dated, they count together with undated ones, from undated later.
//
// Invariant: when an agent of the peer has armed with a longer horizon, any majority has a member that knows of it, and
// others may not (mayArm). Such another may have been counted by that agent after those who know had lost it, for D_max
// at most. So its claim begins no earlier than that longer horizon after it lost the peer. Of an undated claim neither
// the instant nor the horizon is known. So the claims of those who know must then cover as much more as an undated one.
func (v *Prover) gather(now boottime.Instant, p, need int) {
	v.spans = v.spans[:0]
	var longest time.Duration
	add := func(due, until boottime.Instant, horizon time.Duration) {
		v.spans = append(v.spans, span{due.Add(-horizon), until, horizon == 0})
		longest = max(longest, horizon)
	}
	if v.missing.Has(p) {
		add(v.due(p), now, v.peers[p].statement.Guard.Horizon)
	}
	for i := range v.by {
		c := &v.by[i]
		if due, horizon, ok := v.dueBy(c.member, c.statement, p); ok {
			add(due, c.until, horizon)
		}
	}
	dated := 0
	for i := range v.spans {
		if !v.spans[i].undated {
			dated++
		}
	}
	alone := dated >= need
	if !alone && dated < len(v.spans) {
		longest += undated
	}
	all := v.spans
	v.spans = all[:0]
	for _, s := range all {
		if !s.undated {
			s.due = s.due.Add(longest)
		} else if alone {
			continue
		}
		v.spans = append(v.spans, s)
	}
}

// earliest returns the earliest instant at which that many of the spans have begun, not before floor.
func (c *reckoning) earliest(need int, floor boottime.Instant) (at boottime.Instant, ok bool) {
	if len(c.spans) < need || need <= 0 {
		return 0, false
	}
	c.at = c.at[:0]
	for i := range c.spans {
		c.at = append(c.at, c.spans[i].due)
	}
	return max(floor, netgossip.KthLatest(c.at, len(c.at)-need+1)), true
}

// endBefore drops the spans that end before an instant, and reports whether there were any.
func (c *reckoning) endBefore(at boottime.Instant) bool {
	all := c.spans
	c.spans = all[:0]
	for _, s := range all {
		if s.until >= at {
			c.spans = append(c.spans, s)
		}
	}
	return len(c.spans) < len(all)
}

// common reports whether some instant, not before floor, is in that many of the spans. No such instant is earlier than
// earliest, so the spans that end before that do not matter, and without them earliest may be later. What is left when
// it does not move any more contains it.
func (c *reckoning) common(need int, floor boottime.Instant) bool {
	for {
		at, ok := c.earliest(need, floor)
		if !ok {
			return false
		}
		if !c.endBefore(at) {
			return true
		}
	}
}

// conclude proves deaths by time, from the claims of the members that this node counts.
func (v *Prover) conclude(now boottime.Instant) {
	in := &v.in
	switch {
	case !in.Won:
		v.grantSince = 0
	case v.grantSince == 0 || now >= v.grantUntil:
		v.grantSince = now // it may not have been in force in between
	}
	v.grantUntil = in.Until
	if !v.shown[1].Minus(v.shown[0]).IsEmpty() {
		v.out.Wake = min(v.out.Wake, now.Add(again)) // the claims of these begin with the step after the next one
	}
	if !v.lists.settled() || !in.Majority && !in.Granted {
		v.inquire(now, roster.Set{}, boottime.Never)
		return
	}
	need := v.lists.base().Size()/2 + 1
	if !in.Majority {
		need = in.View.Counted.Len()
	}
	var open roster.Set // only the claims of other members are missing for these deaths
	next := boottime.Never
	for p := range v.collect(now).Minus(v.fenced.Minus(v.handedOn())).Minus(in.View.Seen).All() {
		if p == v.roster.Self || p >= len(v.peers) {
			continue
		}
		floor, ok := v.floor(p)
		if !ok {
			continue
		}
		w := &v.peers[p]
		if now >= w.check && v.proves(now, p, need, floor) {
			w.death = Death{Proof: ProofTime, Boot: w.boot, At: now}
			v.fenced.Add(p)
			continue
		}
		if w.ask > now {
			v.out.Wake = min(v.out.Wake, w.ask)
		}
		if v.missing.Has(p) {
			open.Add(p)
			if v.inquiry.last < w.ask || !v.inquiry.about.Has(p) {
				next = min(next, v.soonest(w))
			}
		}
	}
	v.inquire(now, open, next)
}

const (
	again   = 20 * time.Millisecond  // until the next step, where a step must follow soon
	recheck = 250 * time.Millisecond // between two looks at claims that cannot prove a death yet
)

// proves reports whether the claims prove a death at some instant, not before floor. If they do not, it sets when to
// look again, and when to ask for more claims.
func (v *Prover) proves(now boottime.Instant, p, need int, floor boottime.Instant) bool {
	w := &v.peers[p]
	v.gather(now, p, need)
	at, known := v.earliest(need, floor)
	if w.dueKnown = known; !known {
		if !v.missing.Has(p) {
			return false
		}
		at = max(v.due(p), floor).Add(-inquiryPause)
	}
	if w.ask, w.check = at, now; at > now {
		w.check = min(at, now.Add(recheck))
		return false
	}
	v.endBefore(now.Add(-claimAge))
	return known && v.common(need, floor)
}

// soonest returns when a round about a peer may begin: not before its answers can be of use, nor before the round
// before it has been answered.
func (v *Prover) soonest(w *witness) boottime.Instant {
	switch last := v.inquiry.last; {
	case last == 0:
		return w.ask
	case w.dueKnown:
		return max(w.ask, last.Add(v.shortestPause()))
	default:
		return max(w.ask, last.Add(inquiryPause))
	}
}

// floor returns the earliest instant at which a peer may have been dead as far as this node knows itself; ok is false if
// time does not prove the peer's death to this node.
//
// Invariant: a death is proven at an instant at which this node has not seen the peer for a while, nor found itself
// without grounds to live. This is more than the argument of Prover needs, which counts the claims of others.
func (v *Prover) floor(p int) (at boottime.Instant, ok bool) {
	w := &v.peers[p]
	if w.statement != nil && !kills(w.statement) || w.unmet() || !w.fires() {
		return 0, false
	}
	if v.in.Majority {
		return v.since(w), true
	}
	bySlot, agrees := v.slotHorizon(p)
	if !agrees {
		return 0, false
	}
	return v.excluded(p, bySlot)
}

// excluded is floor for a peer outside the granted half: the end of its horizon, as it stated it or as its slot shows
// it, since the present grant is known to be in force. ok is false if the peer can live in a tie without a grant.
func (v *Prover) excluded(p int, bySlot time.Duration) (at boottime.Instant, ok bool) {
	w := &v.peers[p]
	if w.statement == nil || !w.statement.Guard.Leases || v.grantSince == 0 {
		return 0, false
	}
	return max(v.since(w), v.grantSince).Add(max(w.statement.Guard.Horizon, bySlot)), true
}

// handedOn returns the fenced nodes whose death this node has not found itself.
//
// Invariant: such a death never prevents a proof. For a controller an operator's confirmation counts as a single
// reporter; the agents that find the death themselves should report it to the controller, too.
func (v *Prover) handedOn() (set roster.Set) {
	for p := range v.fenced.All() {
		w := &v.peers[p]
		put(&set, p, w.death.handedOn() && w.death.Boot == w.boot) // otherwise the proof by time would replace it with a death whose boot is not known
	}
	return set
}

// slotHorizon returns the horizon in a peer's slot; agrees is false if the slot does not confirm the guard. Before a
// peer disarms under a grant of the LUN, it writes to its slot that it gives up its guard. Its agent may also have been
// restarted with other times since the peer was last heard. The slot shows those times, because the token that a grant
// names must be in the slot. Any other tie-breaker waits for such times itself (for the Lease: K7).
func (v *Prover) slotHorizon(p int) (h time.Duration, agrees bool) {
	if !v.in.BySlots {
		return 0, true
	}
	if v.slots == nil {
		return 0, false
	}
	rec, ok := v.slots.PeerSlot(v.roster.Name(p))
	if !ok || !v.guardedBySlot(p, rec) {
		return 0, false
	}
	return rec.Statement.Guard.Horizon, true
}

func (v *Prover) guardedBySlot(p int, rec *diskquorum.Slot) bool {
	return rec.State == diskquorum.SlotActive && rec.Statement.Boot == v.peers[p].boot && rec.Statement.Guard.Kills()
}

// inquiry asks, in rounds, for the claims that a proof lacks. In a large group the statements of most members are
// minutes old, and old claims do not count.
//
// A round asks each counted member whose latest statement may not show its claim. It asks each of them once, on one
// network; the next round uses another network. The answer is an ordinary statement: it comes from the member itself
// and is dated by the moment of the question. So the inquiry adds no new kind of evidence. It only affects time and
// traffic:
//
//   - A node asks only if it misses the victim itself, could prove the death with the missing claims, and has not
//     proven it yet. A group at rest asks nothing.
//   - If this node knows the dues of enough members, the round is at the instant from which on their answers are a
//     proof (witness.ask). If not, a round inquiryPause before this node's own due finds out. In a small group the
//     dues have usually come with other answers, and nothing is asked before the one round that proves the death.
//   - If a round does not complete the proof, the next one follows after inquiryPause. Each pause is twice as long as
//     the one before, up to inquirySlowest: if most members still see the victim, the claims never come. Another victim,
//     another instant, or the first claim of another member starts the rounds again, but no sooner than the round
//     before has been answered (shortestPause): when most members stop seeing a victim, all of them claim its death
//     within seconds.
//   - A round takes as long as a sweep (Params.RoundTime): half of claimAge, or a little more in groups whose evidence
//     lasts longer than the default. Questions that a round has not sent by then wait for the next round.
type inquiry struct {
	about roster.Set       // the victims of the present rounds
	heard roster.Set       // the members that have claimed one of them
	next  boottime.Instant // the next round
	last  boottime.Instant // the latest round; zero: there was none
	asked bool             // there was one about these victims
	pause time.Duration    // after the next round
	turn  int              // rounds so far
}

const (
	inquiryDelay   = time.Second // before a question that may have been answered by then
	inquiryPause   = claimAge / 2
	inquirySlowest = time.Minute
)

// shortestPause is how soon a round may follow another: hardly sooner than the first one has been answered.
func (v *Prover) shortestPause() time.Duration {
	return min(inquiryPause, max(time.Second/2, time.Duration(len(v.peers))*time.Second/200))
}

// overdue reports whether enough members could have claimed one of these deaths by now.
func (v *Prover) overdue(now boottime.Instant, open roster.Set) bool {
	for p := range open.All() {
		if v.peers[p].ask <= now {
			return true
		}
	}
	return false
}

// wanted returns the members whose answer may complete a proof of one of these deaths: those that may claim it by now,
// as far as is known, but not at a recent instant at which enough others do.
func (v *Prover) wanted(now boottime.Instant, open roster.Set) (set roster.Set) {
	recent, idle := now.Add(-inquiryPause), now.Add(-quiet)
	for m := range v.others().All() {
		st, until := v.merger.Statement(m)
		if st == nil {
			set.Add(m)
			continue
		}
		for p := range open.All() {
			due, _, ok := v.dueBy(m, st, p)
			if !ok && until < idle || ok && due <= now && until < max(recent, v.peers[p].ask) {
				set.Add(m)
				break
			}
		}
	}
	return set
}

// inquire asks about the open deaths; at is the earliest instant for which some of them need a round.
func (v *Prover) inquire(now boottime.Instant, open roster.Set, at boottime.Instant) {
	q := &v.inquiry
	if open.IsEmpty() {
		if !q.about.IsEmpty() {
			if q.asked {
				v.out.Ask = v.merger.Ways(now, roster.Set{}, q.turn) // the remaining questions are not needed any more
			}
			q.about, q.heard, q.asked = roster.Set{}, roster.Set{}, false
		}
		return
	}
	heard := q.heard
	for i := range v.by {
		if st := v.by[i].statement; st.Lost.Union(st.Dues.Who()).Intersects(open) {
			heard.Add(v.by[i].member)
		}
	}
	if q.about.IsEmpty() {
		q.next = boottime.Never
	} else if v.overdue(now, open) && !heard.Minus(q.heard).IsEmpty() {
		at = min(at, q.last.Add(inquiryPause))
	}
	q.about, q.heard = open, heard
	if at <= q.next {
		q.next, q.pause = at, inquiryPause
	}
	if now >= q.next {
		v.out.Ask = v.merger.Ways(now, v.wanted(now, open), q.turn)
		q.turn++
		q.asked, q.last, q.next = true, now, now.Add(q.pause)
		q.pause = min(2*q.pause, inquirySlowest)
	}
	v.out.Wake = min(v.out.Wake, q.next)
}
