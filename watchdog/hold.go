package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// holding is what a node below quorum goes by while no part of the group can live (lease.md H1 to H5).
type holding struct {
	seen []boottime.Instant // by peer: the latest step that had it among the seen
	lost boottime.Instant   // when a majority was counted last

	heard     diskquorum.Hearing
	vacant    boottime.Instant // the permission that it last gave,
	vacantAt  boottime.Instant // and when
	excluded  bool             // the latest grant, as read since then, names others who may live by it,
	overruled bool             // and was so in this outage
	ground    boottime.Instant // others have lived without this node since, at each look; zero: none are known to
	lived     bool             // in the step before
}

// healGrace is for how long a permission to hold outlives the news that somebody lives again. When the networks come back,
// that is a majority which has not found this node yet: it would say LEFT of itself for a moment. What the permission
// rests on stays true of its time, so this makes no difference to a proof, and the overlap with those who live is
// the longer by so much.
const healGrace = 2 * time.Second

// hears reports whether the LUN tells this node who lives: it is meant to, and the LUN is open.
func (c *Core) hears() bool {
	return (c.cfg.Hold || c.listens()) && c.lun.arbiter != nil
}

// Holds reports whether this node may hold by the LUN. Under another policy it is fed anyway.
func (c *Core) Holds() bool { return c.cfg.Hold && c.hears() && c.cfg.OnLoss == LossFence }

// settled is what the echo block says of that.
func (c *Core) settled() bool {
	if c.cfg.LUNMode == LUNOr {
		return c.rosters.noOther()
	}
	return c.rosters.oneList()
}

// lately are the members by whom this node may still be counted for having been seen. What they know of that
// is what it stated while it saw them, and they know it for as long as evidence lasts (H2).
func (c *Core) lately(now boottime.Instant) (set roster.Set) {
	window := c.rosters.window()
	if c.listens() {
		window = max(window, c.cfg.Budget.Voices) // whom this node tells on the LUN that it sees them may count it by that
	}
	for p, at := range c.hold.seen {
		if at != 0 && now.Sub(at) <= window {
			set.Add(p)
		}
	}
	return set
}

// dated is D_lun: how long a dated word counts. It is no longer than what the horizon reckons with (M4).
func (cfg *Config) dated() time.Duration {
	return cfg.MaxAge + cfg.Budget.Sampling + cfg.Arbitrate
}

// followHold reads what the LUN says of who lives.
func (c *Core) followHold(now boottime.Instant) {
	h := &c.hold
	seen := c.view.Seen
	if c.fx.Statement != nil {
		seen = seen.Union(c.fx.Statement.Seen) // it was answered until now
	}
	for p := range seen.Union(c.sees()).All() {
		if p < len(h.seen) {
			h.seen[p] = now
		}
	}
	h.heard, h.excluded = diskquorum.Hearing{}, false
	if c.outcome != netgossip.Majority && c.hears() && c.rosters.oneList() {
		h.heard = c.lun.arbiter.Hear(now, c.lately(now), c.rosters.quorum, c.cfg.dated())
		h.excluded = c.lun.arbiter.Excluded(h.lost)
	}
	if !c.Holds() {
		h.heard.Vacant = 0
	}
	if c.outcome == netgossip.Majority {
		h.overruled = false
	} else {
		h.linger(now)
	}
	switch {
	case h.heard.Ground == 0:
		h.ground = 0
	case h.ground == 0:
		h.ground = now
	}
}

// asking reports whether this node may go on while it asks (H4).
//
// Invariant: not beside those who live by a decision that has named others, or who have given it up for a majority. A decision may be
// over within seconds; that is no reason to be fed beside them. Once they say that they do not live, everybody asks again: the half
// that was granted may have come apart as well.
func (c *Core) asking() bool {
	return c.Holds() && c.rosters.oneList() && c.healthy && !(c.hold.overruled && c.hold.heard.Others)
}

// linger has a permission outlive the news that somebody lives again, by healGrace. A decision that names others ends it.
func (h *holding) linger(now boottime.Instant) {
	h.overruled = h.overruled || h.excluded
	until := min(h.vacant, h.vacantAt.Add(healGrace))
	switch {
	case h.heard.Vacant > now:
		h.vacant, h.vacantAt = h.heard.Vacant, now
	case until > now && !h.overruled:
		h.heard = diskquorum.Hearing{Vacant: until}
	}
}

// certain reports whether the others live without this node for certain, by their own words (H6).
//
// Invariant: neither by silence, nor by what is true for a moment only. Where an outage of all networks reaches this node
// first, the others live until theirs is as old as evidence may be; so what they say has to be true for longer, and by
// words that date from after that. A grant can be the last thing that a half did before it came apart, so all whom it
// names have to live by it.
func (h *holding) certain(window time.Duration) bool {
	return h.ground != 0 && h.heard.Ground >= h.ground.Add(window)
}

// lives reports whether this node lives by a right that is its own, and not by holding.
func (c *Core) lives(now boottime.Instant) bool {
	if c.sentence.condemned {
		return false
	}
	d := &c.fx.Decision
	return c.outcome == netgossip.Majority && c.view.QuorumUntil > now || d.Quorum && d.Action == Feed ||
		c.lun.arbiter != nil && c.lun.arbiter.Named()
}

// lapse is how late a step may be that renews a permission which was about to end: the evidence was there in time. It is
// less than [settle], which claims stand for as well.
const lapse = time.Second

// claimsBegin reports whether this node's claims of deaths begin again: wherever it did not live (M1), or nobody can tell whether
// it did, since it was stopped for longer than it was permitted to run (M2).
//
// Invariant: a claim covers only time in which its node lived without a gap. A node that holds does so on the word of
// most of the list that they did not live, so no majority can have claimed its death by then.
func (c *Core) claimsBegin(now, permitted boottime.Instant) (again bool) {
	lives := c.lives(now)
	again = (c.cfg.Hold || c.cfg.LUNMode == LUNOr) && (c.cfg.LUN || c.lun.arbiter != nil) && (!lives || c.hold.lived && now >= permitted.Add(lapse))
	c.hold.lived = lives
	return again
}

// testify tells by the LUN whether this node lives, while somebody is missing who may have to know; always where the LUN
// counts as a network does: the evidence of one more heartbeat would come too late. A planned stop does not
// end that before the guard is given up: the node holds until somebody can be told.
func (c *Core) testify(now boottime.Instant) {
	if !c.hears() || c.stopping && c.release.done || !c.listens() && !c.sentence.condemned && c.rosters.expected.Minus(c.view.Counted).IsEmpty() {
		return
	}
	d := &c.fx.Decision
	out := c.lun.arbiter.Testify(now, &diskquorum.Testimony{
		Lives: c.hold.lived, Feeding: d.Action == Feed || d.Action == Hold, Holding: d.Action == Hold,
		Settled: c.settled(), Lately: c.lately(now), View: c.view.Counted, Seen: c.sees(), Sentence: c.sentence.timeout,
	})
	c.fx.Ops = out.Ops
	c.fx.Wake = min(c.fx.Wake, out.Wake)
}
