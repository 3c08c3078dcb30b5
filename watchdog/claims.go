package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Fresh claims are claims of statements that are proven for an instant not older than
// claimAge; settle is what a statement may lag behind the step that made it, or an answer
// may be late that was made before it. Both enter the time that a claim stands for.
//
// Neither depends on the size of the group: in a large one most statements are older, and
// a node that lacks claims asks for them (inquiry).
const (
	claimAge = 5 * time.Second
	settle   = 2 * time.Second
)

// ProofDelay is what a proof by time takes beyond the victim's horizon, but for the inquiry.
const ProofDelay = claimAge + settle

// chanceDelay is the time within which all of a roster of n answer, where samples are taken, though
// nobody asks for them. Agents from before there was an inquiry count claims that are as old, and so
// a claim for them has to stand for it.
func chanceDelay(n int) time.Duration {
	return max(claimAge, time.Duration(n)*200*time.Millisecond) + settle
}

// longLost are the claimed peers that have been missed for so long that older agents may count the claim, too.
func (v *Prover) longLost(now boottime.Instant) roster.Set {
	long := v.lost
	for p := range v.lost.All() {
		w := &v.peers[p]
		put(&long, p, v.missed(now, w) >= w.statement.Guard.Horizon+v.chance)
	}
	return long
}

// fresh is a peer's statement if its claims count, or nil. They do not while it goes by another
// list, too: it has not doubted yet what was said under that one.
func (v *Prover) fresh(now boottime.Instant, m int) *netgossip.Statement {
	if m == v.roster.Self {
		return nil
	}
	st, anchor := v.merger.Statement(m)
	if st == nil || now.Sub(anchor) > claimAge {
		return nil
	}
	if stands := st.Stands(); v.cfg.Succession != nil && !goesBy(&stands, v.lists.base()) {
		return nil
	}
	return st
}

// claims counts the fresh claims of a peer among the counted members, this node included.
func (v *Prover) claims(now boottime.Instant, p int) int {
	n := 0
	if v.lost.Has(p) {
		n++
	}
	for m := range v.in.View.Counted.All() {
		if st := v.fresh(now, m); st != nil && st.Lost.Has(p) {
			n++
		}
	}
	return n
}

// claimants are the counted members whose claim of one of these counts.
func (v *Prover) claimants(now boottime.Instant, of roster.Set) (by roster.Set) {
	for m := range v.in.View.Counted.All() {
		if st := v.fresh(now, m); st != nil && st.Lost.Intersects(of) {
			by.Add(m)
		}
	}
	return by
}

// inquiry asks for the claims that a proof lacks, in rounds. In a large group the statements of most
// members are minutes old, and claims of different moments do not add up.
//
// A round asks each member once that is counted and whose latest statement is too old or does not
// claim, on one network, another one in the next round. The answer is a statement like any other:
// first hand, to a question of this node's, dated by when that was asked. So the inquiry makes
// nothing believed that is not believed without it. It is only a matter of time, and of traffic:
//
//   - Nobody asks who does not claim the death itself, could not prove it by the claims, or has proven it.
//     A group at rest asks nothing.
//   - The first round waits inquiryDelay for the others to notice as much. The next begins no sooner
//     than inquiryPause after it, and each pause is twice the one before it, up to inquirySlowest: where
//     most members still see the victim, the claims never come. Another victim, or a member that had not
//     claimed before, begins it again, after inquiryPause at the least: a victim that most have seen until now
//     is claimed by all of them within seconds.
//   - A round takes as long as a sweep (Params.RoundTime): half of claimAge, or a little more in groups whose
//     evidence lasts longer than by default. What is left of it then waits for the next one.
type inquiry struct {
	about roster.Set       // the victims of the present rounds
	heard roster.Set       // the members that have claimed one of them
	next  boottime.Instant // the next round; zero: there was none
	last  boottime.Instant // the latest round; zero: there was none
	pause time.Duration    // after the next round
	turn  int              // rounds so far
}

const (
	inquiryDelay   = time.Second
	inquiryPause   = claimAge / 2
	inquirySlowest = time.Minute
)

// inquire asks for claims that the proof of open deaths lacks.
func (v *Prover) inquire(now boottime.Instant, open roster.Set) {
	q := &v.inquiry
	if open.IsEmpty() {
		if !q.about.IsEmpty() {
			q.about, q.heard = roster.Set{}, roster.Set{}
			v.out.Ask = v.merger.Ways(now, roster.Set{}, q.turn) // who was not asked yet need not be
		}
		return
	}
	heard := q.heard.Union(v.claimants(now, open))
	if fresh := !open.Minus(q.about).IsEmpty(); fresh || !heard.Minus(q.heard).IsEmpty() {
		soon := now.Add(inquiryDelay)
		if q.last != 0 {
			soon = max(soon, q.last.Add(inquiryPause))
		}
		if fresh || soon < q.next {
			q.next = soon
		}
		q.pause = inquiryPause
	}
	q.about, q.heard = open, heard
	if now < q.next {
		v.out.Wake = min(v.out.Wake, q.next)
		return
	}
	var wanted roster.Set
	for m := range v.in.View.Counted.All() {
		st, anchor := v.merger.Statement(m)
		put(&wanted, m, m != v.roster.Self && (st == nil || now.Sub(anchor) > claimAge/2 || !open.Minus(st.Lost).IsEmpty()))
	}
	v.out.Ask = v.merger.Ways(now, wanted, q.turn)
	q.turn++
	q.last, q.next = now, now.Add(q.pause)
	q.pause = min(2*q.pause, inquirySlowest)
	v.out.Wake = min(v.out.Wake, q.next)
}
