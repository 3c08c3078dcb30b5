package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// A step that comes stallAfter later than the one before follows a stall of this node: a
// stopped process, a frozen VM. All evidence is old then, and says nothing of the peers.
// Permission ends with it at once; but before this node condemns itself or is taken down the
// peers get stallGrace, and before it or they are called LEFT they get stallWord, in which all of
// them are asked, twice. Where samples are taken, asking takes longer, and they get stallGrace for that as well.
const (
	stallAfter = 2 * time.Second
	stallGrace = time.Second
	stallWord  = 300 * time.Millisecond
	stallAgain = stallWord / 3
)

// stall is what is still done after one.
type stall struct {
	since    boottime.Instant // it ended; zero: there was none
	again    boottime.Instant // all are asked once more then; zero: they were
	holdLeft boottime.Instant // no LEFT is published before
	brief    bool             // it was shorter than evidence lasts, so that nobody need have missed this node
}

func (c *Core) noteStall(now boottime.Instant) {
	t := &c.stall
	switch {
	case c.stepped != 0 && now.Sub(c.stepped) >= stallAfter:
		c.holdLeft = now.Add(stallGrace)
		*t = stall{since: now, again: now.Add(stallAgain), holdLeft: now.Add(stallWord), brief: now.Sub(c.stepped) < c.cfg.MaxAge}
		if c.cfg.Budget.Sampling > 0 { // nor can all be asked at once
			t.again, t.holdLeft = 0, c.holdLeft
			break
		}
		c.askAll(c.proof.silent(c.rosters.expected, now))
	case t.again != 0 && now >= t.again:
		t.again = 0
		c.askAll(c.proof.silent(c.rosters.expected, t.since))
	}
	c.stepped = now
	for _, at := range []boottime.Instant{t.again, t.holdLeft, c.holdLeft} {
		if now < at {
			c.fx.Wake = min(c.fx.Wake, at)
		}
	}
}

// askAll asks members for a word on all networks: nothing is known of any of them.
func (c *Core) askAll(members roster.Set) {
	ways := make([]roster.Set, c.cfg.Networks)
	for k := range ways {
		ways[k] = members
		if k < len(c.fx.Ask) {
			ways[k] = ways[k].Union(c.fx.Ask[k])
		}
	}
	c.fx.Ask = ways
}
