package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// strikeAfter is how long a node must have starved before it is taken down at once where
// that is configured. The loss of quorum is steady by then; evidence that was merely late
// has arrived.
const strikeAfter = time.Second

// mayStrike reports whether there is a ground to take a starving node down. Where the LUN tells who lives, silence
// is none: a switch that takes all networks with it would take the whole group down.
func (c *Core) mayStrike(now boottime.Instant) bool {
	if c.sentence.condemned || c.Barred() == BarNone {
		return c.mayExecute(now)
	}
	if c.hears() {
		return c.hold.certain(c.rosters.window())
	}
	due := c.starving.Add(strikeAfter)
	if now < due {
		c.fx.Wake = min(c.fx.Wake, due)
	}
	return now >= due
}

// followStrike decides whether a node that is to be taken down may be taken down now.
//
// Invariant: only a node that its peers count dead anyway is struck, one that starves for want
// of quorum with its watchdog armed. A node that was never armed, as after its boot, or that
// is disarmed, is not; nor is one under a policy that lets it live, nor one that stood
// still itself and has not heard its peers since.
func (c *Core) followStrike(now boottime.Instant) {
	d := &c.fx.Decision
	c.fx.Strike = false
	if d.Action != Starve || d.Reason == ReasonStarting || !c.hadQuorum || !c.guard.Kills() || c.wantsDisarm() || now < c.holdLeft {
		c.starving = 0
		return
	}
	if c.starving == 0 {
		c.starving = now
	}
	c.fx.Strike = c.mayStrike(now)
}

// mayExecute reports whether a condemned node may be taken down: its word is on the LUN, so that the others know when it has
// ended, or it has had the time of an I/O to get there. Where nodes condemn themselves, no other one is struck (P8).
func (c *Core) mayExecute(now boottime.Instant) bool {
	s := &c.sentence
	if !s.condemned {
		return false
	}
	due := s.at.Add(c.cfg.Sentence.Strike)
	if now < due {
		c.fx.Wake = min(c.fx.Wake, due)
	}
	return now >= due || c.lun.arbiter != nil && c.lun.arbiter.SentenceLanded()
}
