package diskquorum

import (
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// How long this node's I/O takes decides how long a ballot takes, and so how long another proposer is left alone. Only
// progress rests on it: a node that measures wrongly preempts too early or waits too long, and what is decided stays one
// value (B1 to B9).

// recent is the weight of an I/O in the mean: one in this many.
const recent = 4

// paceWindow is half of the time that slowest looks back, about.
const paceWindow = 30 * time.Second

// pace is how long transfers of this node take, a mean in which the latest weigh most.
type pace struct {
	write, read time.Duration
	greatest    [2]time.Duration // round, in this window and in the one before
	began       boottime.Instant // this window
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

// round is a write and the read after it.
func (p *pace) round() time.Duration { return p.write + p.read }

// slowest is the longest that a round has taken in the last minute.
func (p *pace) slowest() time.Duration { return max(p.greatest[0], p.greatest[1]) }

// Rounds of I/O from an equal split until a half feeds under a grant, in the worst case: the view is shown twice, a phase,
// another phase with the I/O that was under way, and the partner's read. If phases go to both copies (B3) there are
// two more writes.
const (
	roundsToShow   = 2
	roundsToDecide = 3
)

// RoundsToFeed is how many rounds of I/O, a write and a read each, there are from an equal split until a half feeds under a
// grant, in the worst case, with phases that are written to this many copies.
func RoundsToFeed(copies int) int { return roundsToShow + roundsToDecide + copies - 1 }

// SlowestRound is the longest that a write and the read after it may take if an equal split is to be decided within A, with
// phases that are written to so many copies. delayed is for a half that lets the other one go first (L12).
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

// TooSlow says that an equal split could not be decided in time by the I/O of the last minute, or "". It is a warning: the
// node has the LUN, and takes part in a decision all the same, which may come before a watchdog fires.
func (a *Arbiter) TooSlow() string {
	limit := a.timing.SlowestRound(a.copiesPerPhase(), a.prefer)
	if a.claim != claimActive || a.pace.slowest() <= limit {
		return ""
	}
	return fmt.Sprintf("a write and a read took more than %v together within the last minute: an equal split could not be decided in time, which is %v; "+
		"see \"the tie was not decided\" in docs/troubleshooting.md", limit.Round(10*time.Millisecond), a.timing.Arbitrate)
}

// ballot is the time of a ballot whose phases are written to this many copies, from the moment at which its owner may begin
// until another node has read its outcome: an I/O that is under way, two phases, the publication, and a read of the other
// node that began too early before the one that shows it.
func (p *pace) ballot(copies int) time.Duration {
	return 2*time.Duration(copies)*p.write + 2*p.read + p.round() + p.round()
}

// sluggish reports whether an I/O takes a good part of a heartbeat. Then each one counts, and a heartbeat that is due
// anyway begins a ballot (see early).
func (a *Arbiter) sluggish() bool { return 8*max(a.pace.write, a.pace.read) > a.timing.Heartbeat }

// fresh is T_fresh of L5, or longer if one round of I/O takes so long that a moving slot would seem to stand still.
func (a *Arbiter) fresh() time.Duration { return max(a.timing.fresh(), 3*a.pace.round()) }

// underWay is what a node has seen of the other nodes' ballots in the instance after the latest decision.
type underWay struct {
	instance, mbal, bal uint64
	slot                int
	since               boottime.Instant // END of the read that first showed this
}

// followBallots notes after a read whether another node is at a ballot: its slot moves, and shows a number in the
// instance to be decided. Its next step, a greater number or an accepted value, shows as a change.
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

// yieldsUntil is until when this node lets the ballot of another node go on: for as long as a ballot takes, since
// that ballot was last seen to progress. One proposer at a time gets through; two that preempt each other do not.
// Safety does not rest on this: two ballots at once are what B5 and B6 are for.
func (a *Arbiter) yieldsUntil() boottime.Instant {
	if a.others.slot < 0 || a.others.mbal == 0 {
		return 0
	}
	return a.others.since.Add(a.patience())
}

// patience is how long another proposer is left alone: as long as a ballot takes. Without a stagger nobody waits for
// anybody.
func (a *Arbiter) patience() time.Duration {
	if a.timing.Stagger == 0 {
		return 0
	}
	return a.ballotTime()
}

func (a *Arbiter) ballotTime() time.Duration { return a.pace.ballot(a.copiesPerPhase()) }
