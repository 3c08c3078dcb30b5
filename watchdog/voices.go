package watchdog

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// voices is the LUN as one more network for quorum (lun.mode: or; lease.md N1 to N6).
//
// Invariant: a word on the LUN is believed for no longer than the horizon reckons with (N4), it counts only if its writer saw
// this node when it composed it (N2), and a node that is heard is sighted: nobody claims its death for that time (N3). So the argument
// of Prover stands, with the LUN beside the networks: a node that x counts by the LUN said, no longer than D_lun ago, that it
// sees x, and its claim of the death of x begins again with that word.
//
// LEFT goes by the networks alone: no traffic must go to a node that only the LUN reaches (N5).
type voices struct {
	words    []diskquorum.Voice // by member
	until    []boottime.Instant // by member: it is counted by the LUN until then; 0: it is not
	heard    roster.Set         // members that this node sees by the LUN
	networks netgossip.View     // what the networks alone show
	needed   bool               // these make no majority, and with the LUN there is one
}

func newVoices(size int) voices {
	return voices{words: make([]diskquorum.Voice, size), until: make([]boottime.Instant, size)}
}

// listens reports whether this node counts by the LUN: it is meant to, the horizon has room for it, and the LUN is open.
func (c *Core) listens() bool {
	return c.cfg.LUNMode == LUNOr && c.cfg.Budget.Voices > 0 && c.lun.arbiter != nil
}

// followVoices adds to the view whom the LUN shows.
func (c *Core) followVoices(now boottime.Instant) {
	v := &c.voices
	v.networks, v.heard, v.needed = c.view, roster.Set{}, false
	clear(v.until)
	// A node that is condemned, or waits, counts nobody, and a boot that is condemned is counted by nobody (P2, P2', P5).
	if !c.listens() || c.apart() {
		return
	}
	one := c.rosters.noOther() // lists that are changed to one another are counted by the networks alone (N6)
	c.lun.arbiter.Listen(now, c.cfg.Budget.Voices, v.words)
	for p := range v.words {
		w := &v.words[p]
		if w.Until <= now || !c.rosters.expected.Has(p) || c.proof.hasEnded(p, w.Boot) {
			continue
		}
		v.heard.Add(p)
		if w.Mutual && one {
			v.until[p] = w.Until
		}
	}
	before := c.rosters.tally(c.view.Counted)
	c.merger.Extend(&c.view, now, c.rosters.quorum, v.until)
	v.needed = before != netgossip.Majority && c.rosters.tally(c.view.Counted) == netgossip.Majority
}

// sees are the members that this node tells on the LUN that it sees; nobody where it does not count by the LUN: then nobody
// may count it by the LUN either, for it does not take a word there for a sighting.
func (c *Core) sees() roster.Set {
	if !c.listens() || c.apart() {
		return roster.Set{}
	}
	return c.view.Seen.Union(c.voices.heard)
}

// ByLUN are the members that this node counts by the LUN, whatever the networks say of them.
func (c *Core) ByLUN() (members roster.Set) {
	for p, until := range c.voices.until {
		if c.view.Counted.Has(p) && until > c.stepped {
			members.Add(p)
		}
	}
	return members
}

// NetworkView is what the networks alone show: by it the peers are probed, and it is whom they reach.
func (c *Core) NetworkView() netgossip.View { return c.voices.networks }
