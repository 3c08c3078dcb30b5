package diskquorum

import (
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// The duration of this node's I/O determines how long a ballot takes, and so how long this node waits for another
// proposer. Only progress depends on it: a node with a wrong measurement preempts too early or waits too long, but
// there is still only one decided value (B1 to B9).

// recent is the weight of an I/O in the mean: one part in recent.
const recent = 4

// paceWindow is about half of the time that slowest covers.
const paceWindow = 30 * time.Second

// pace measures how long transfers of this node take: a mean in which the latest ones have the most weight.
type pace struct {
	write, read time.Duration
	greatest    [2]time.Duration // longest round, in this window and in the one before
	began       boottime.Instant // start of this window
}

func (p *pace) note(now boottime.Instant, kind OpKind, took time.Duration) {
	mean := &p.write
	if kind == OpRead {
		mean = &p.read
	}
	if *mean == 0 {
		*mean = took
	}
	*mean += (took - *mean) / recent
	switch age := now.Sub(p.began); {
	case age >= 2*paceWindow:
		p.greatest, p.began = [2]time.Duration{}, now
	case age >= paceWindow:
		p.greatest, p.began = [2]time.Duration{0, p.greatest[0]}, now
	}
	p.greatest[0] = max(p.greatest[0], p.round())
}

// round returns the time of a write and the read after it.
func (p *pace) round() time.Duration { return p.write + p.read }

// slowest returns the longest time that a round has taken in the last minute.
func (p *pace) slowest() time.Duration { return max(p.greatest[0], p.greatest[1]) }

// Rounds of I/O from an equal split until a half feeds under a grant, in the worst case: the view is shown twice, a
// phase, another phase with the I/O that was under way, and the partner's read. If phases are written to both copies
// (B3), there are two more writes.
const (
	roundsToShow   = 2
	roundsToDecide = 3
)

// RoundsToFeed returns how many rounds of I/O, a write and a read each, are needed from an equal split until a half
// feeds under a grant, in the worst case, if phases are written to this many copies.
func RoundsToFeed(copies int) int { return roundsToShow + roundsToDecide + copies - 1 }

// SlowestRound returns the longest time that a write and the read after it may take so that an equal split is decided
// within A, if phases are written to this many copies. delayed is for a half that lets the other half propose first
// (L12).
func (t *Timing) SlowestRound(copies int, delayed bool) time.Duration {
	left, rounds := t.Arbitrate, time.Duration(RoundsToFeed(copies)-roundsToShow)
	if delayed {
		left -= t.PreferenceDelay
	}
	if limit := left / (roundsToShow + rounds); limit >= t.Heartbeat {
		return limit
	}
	return max(0, left-roundsToShow*t.Heartbeat) / rounds
}

// TooSlow returns a warning if an equal split could not be decided in time with the I/O of the last minute, or "". It
// is only a warning: the node has the LUN, and still takes part in a decision, which may come before a watchdog fires.
func (a *Arbiter) TooSlow() string {
	limit := a.timing.SlowestRound(a.copiesPerPhase(), a.prefer)
	if a.claim != claimActive || a.pace.slowest() <= limit {
		return ""
	}
	return fmt.Sprintf("a write and a read took more than %v together within the last minute: an equal split could not be decided in time, which is %v; "+
		"see \"the tie was not decided\" in docs/troubleshooting.md", limit.Round(10*time.Millisecond), a.timing.Arbitrate)
}

// ballot returns the time of a ballot whose phases are written to this many copies, from the moment at which its owner
// may begin until another node has read its outcome. It includes an I/O that is under way, two phases, the publication,
// and two reads of the other node, of which the first began too early.
func (p *pace) ballot(copies int) time.Duration {
	return 2*time.Duration(copies)*p.write + 2*p.read + p.round() + p.round()
}

// sluggish reports whether an I/O takes more than an eighth of a heartbeat. Then each I/O counts, and a heartbeat that
// is due anyway begins a ballot (see early).
func (a *Arbiter) sluggish() bool { return 8*max(a.pace.write, a.pace.read) > a.timing.Heartbeat }

// fresh returns T_fresh of L5, or more if a round of I/O takes so long that a moving slot would seem unchanged.
func (a *Arbiter) fresh() time.Duration { return max(a.timing.fresh(), 3*a.pace.round()) }

// underWay holds what a node has seen of the other nodes' ballots in the instance after the latest decision.
type underWay struct {
	instance, mbal, bal uint64
	slot                int
	since               boottime.Instant // END of the read that first showed this state
}

// followBallots records after a read whether another node has a ballot under way: its slot moves, and shows a number in
// the instance to be decided. Its next step, a greater number or an accepted value, appears as a change.
func (a *Arbiter) followBallots() {
	l := a.table.log(&a.ballot)
	seen := underWay{instance: l.latest + 1, slot: -1, since: a.table.end}
	for i := range a.table.entries {
		e := &a.table.entries[i]
		b := &e.record().Ballot
		if i == a.slot || e.status != slotKnown || b.Instance != seen.instance || b.MBal <= seen.mbal || !a.moves(e) {
			continue
		}
		seen.mbal, seen.bal, seen.slot = b.MBal, b.Bal, i
	}
	if was := &a.others; seen.instance == was.instance && seen.mbal == was.mbal && seen.bal == was.bal {
		seen.since = was.since
	}
	a.others = seen
}

// yieldsUntil returns until when this node does not disturb the ballot of another node: for as long as a ballot takes,
// since that ballot was last seen to progress. A single proposer succeeds; two that preempt each other do not. Safety
// does not depend on this: B5 and B6 handle two ballots at the same time.
func (a *Arbiter) yieldsUntil() boottime.Instant {
	if a.others.slot < 0 || a.others.mbal == 0 {
		return 0
	}
	return a.others.since.Add(a.patience())
}

// patience returns how long this node does not disturb another proposer: as long as a ballot takes. Without a stagger,
// proposers do not wait for each other.
func (a *Arbiter) patience() time.Duration {
	if a.timing.Stagger == 0 {
		return 0
	}
	return a.ballotTime()
}

func (a *Arbiter) ballotTime() time.Duration { return a.pace.ballot(a.copiesPerPhase()) }
