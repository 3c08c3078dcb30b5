package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// release is the giving up of a guard: a disarm signal or a planned stop is announced, by a
// statement that says unarmed, and carried out when it is known to enough others.
//
// Invariant: while a node's guard is given up, every set of members that could prove its
// death by time has a member that knows (see prover). Hence a node that has lost its peers
// is not disarmed: they may already count on its death.
type release struct {
	announced boottime.Instant // the statement says unarmed since; zero: nothing is announced
	mark      uint64           // sequence of this node's slot then
	done      bool             // enough others know
	yielded   bool             // done, and the feeder has not answered since
}

// letReach is what an answer may be late that was made before the announcement.
const letReach = 500 * time.Millisecond

// mayGiveUp reports whether the giving up may begin: this node lives by a majority or by what has decided for its half, or nothing kills it.
//
// Invariant: a node without quorum gives its guard up neither for a stop nor for maintenance, and does not say so. Where it is not decided yet
// which half lives, a node of the one that loses would run on disarmed, and nobody might ever call it FENCED. Nor may they when it has only
// said so: to its slot goes the same word, and a guard that is said to be given up proves nothing, though it fires.
func (c *Core) mayGiveUp() bool {
	d := &c.fx.Decision
	return !c.guard.Kills() || c.rosters.removed() || c.outcome == netgossip.Majority || d.Action == Feed && d.Quorum
}

func (c *Core) followRelease(now boottime.Instant) {
	r := &c.release
	if !c.disarmAsked() {
		r.announced, r.done = 0, false
		return
	}
	if r.announced == 0 && !c.mayGiveUp() {
		return
	}
	if r.announced == 0 {
		r.announced = now
		c.fx.Wake = min(c.fx.Wake, now) // the tie-breaker is to hear of a stop as well
		if c.lun.arbiter != nil {
			r.mark = c.lun.arbiter.Status(now).Sequence
		}
	}
	if r.done = r.done || !c.guard.Kills() || c.rosters.removed() || c.releaseKnown(now); r.done {
		r.yielded = c.guard.Armed
	}
}

// releaseKnown reports whether enough others know of the announcement. A majority is
// enough: it meets every majority and every half that this node is not in. So is this node's
// half of an equal split for the majorities; the other half learns it from the slot, where
// it looks before it proves a death. No other tie-breaker has slots, and a half that is granted
// next would take this node for dead: so with another the node waits for a majority.
//
// Invariant: a half gives no guard up before it is the half that lives. One that is decided against has nothing to stop it but its
// watchdogs; a node of it that was disarmed runs on, and nobody may ever call it FENCED.
func (c *Core) releaseKnown(now boottime.Instant) bool {
	switch c.reach(c.release.announced) {
	case reachMost:
		return true
	case reachHalf:
		if d := &c.fx.Decision; d.Action != Feed || !d.Quorum {
			return false // not decided, or lost
		}
		// A half that is at odds may write where the other one does not read.
		return !c.guard.Leases || c.united && c.slotShows(now)
	default:
		return false
	}
}

// reach is how many of the members know what this node says of its guard.
type reach uint8

const (
	reachFew  reach = iota
	reachHalf       // all of this node's half of an equal split
	reachMost       // more than half
)

// reach tells how many of those who are counted were asked since the given time, or long enough after
// it, and do not take this node for guarded.
func (c *Core) reach(since boottime.Instant) reach {
	var knows roster.Set
	knows.Add(c.cfg.Roster.Self)
	for m := range c.view.Counted.All() {
		if m == c.cfg.Roster.Self {
			continue
		}
		st, anchor := c.merger.Statement(m)
		if st != nil && anchor >= since.Add(letReach) && !st.Guarded.Has(c.cfg.Roster.Self) {
			knows.Add(m)
		}
	}
	switch {
	case mostOfEach(c.rosters.electorate, knows):
		return reachMost
	case 2*knows.Len() < c.rosters.base().Size() || c.outcome != netgossip.EqualSplit:
		return reachFew
	default:
		return reachHalf
	}
}

// slotShows reports whether a record that was made after the announcement has landed. At
// most one write is under way at a time, and the one that was may be older.
func (c *Core) slotShows(now boottime.Instant) bool {
	if c.lun.arbiter == nil {
		return false
	}
	s := c.lun.arbiter.Status(now)
	return c.release.written(now, s.Sequence, s.LastWrite)
}

// written is slotShows for the sequence and the age of the latest write that landed.
func (r *release) written(now boottime.Instant, sequence uint64, age time.Duration) bool {
	return sequence >= r.mark+2 && age >= 0 && now.Add(-age) > r.announced.Add(letReach)
}

// mayArm holds up the first arming of an agent while too few have its word. Those who have not may
// take the node for guarded still, by the word of an agent that crashed: with the horizon of that
// one, which may have been shorter. The countdown of that one runs until then, and resets the node as
// they expect. What this agent would do without quorum makes no difference: the peers go by what the one
// before it said.
//
// The argument is that of release: who proves a death by a majority needs one who knows. In a
// tie the half knows. The other half can prove it by a grant of its own only, and one follows a grant that
// names this node when the horizon is over that is stated with the token: in the slot (see
// prover.excluded), or to the tie-breaker, which waits itself (tie.Breaker; in the Lease K7). Without a
// grant that names this node there is no such word.
func (c *Core) mayArm() bool {
	if c.guard.Armed {
		return true
	}
	switch c.reach(0) { // this agent has asked nobody before it began
	case reachMost:
		return true
	case reachHalf:
		// A half that is at odds may go by other tie-breakers than the other half.
		return !c.guard.Leases && c.united || c.fx.Decision.Reason == ReasonSplitWon
	default:
		return false
	}
}
