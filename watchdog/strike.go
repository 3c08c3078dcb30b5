package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// strikeAfter is how long a node must have starved before it is taken down at once where
// that is configured. The loss of quorum is steady by then; evidence that was merely late
// has arrived.
const strikeAfter = time.Second

// strikeFrom is the instant from which a node that has starved since one may be taken down. Where the LUN tells who
// lives, silence alone says nothing: a switch that takes all networks with it would take the whole group down. What
// tells is a grant that names others, and dated records of a majority that lives without this node. The latter is
// true of a moment where an outage reaches this node first, so it has to last for as long as the others need to notice
// theirs.
func (c *Core) strikeFrom() boottime.Instant {
	switch r := c.fx.Decision.Reason; {
	case !c.Holds() || r == ReasonSplitLost:
		return c.starving.Add(strikeAfter)
	case r == ReasonIsolated:
		return max(c.starving.Add(strikeAfter), c.hold.isolated.Add(c.cfg.MaxAge))
	default:
		return boottime.Never
	}
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
	due := c.strikeFrom()
	if c.fx.Strike = now >= due; !c.fx.Strike {
		c.fx.Wake = min(c.fx.Wake, due)
	}
}
