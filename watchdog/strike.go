package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// strikeAfter is how long a node must have starved before it is taken down at once where
// that is configured. The loss of quorum is steady by then; evidence that was merely late
// has arrived.
const strikeAfter = time.Second

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
	due := c.starving.Add(strikeAfter)
	if c.fx.Strike = now >= due; !c.fx.Strike {
		c.fx.Wake = min(c.fx.Wake, due)
	}
}
