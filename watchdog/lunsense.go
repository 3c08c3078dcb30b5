package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// LUNMode is lun.mode: when the LUN has a say.
type LUNMode uint8

const (
	LUNTieBreaker LUNMode = iota // at an equal split only
	LUNOr                        // network or LUN: it is one more network for quorum, see voices
	LUNAnd                       // network and LUN: who alone lost the LUN stops
)

// lunSense is what the LUN says beside the verdict on a tie.
type lunSense struct {
	missing boottime.Instant // the LUN is lost for this node and not for a quorum in contact, since; zero: it is not
	lost    bool             // for so long that a common outage would have shown
}

// followLUN reads the signs of the LUN. It only looks at one list of members: while two
// are in force the network alone decides.
func (c *Core) followLUN(now boottime.Instant) {
	s := &c.sense
	if !c.rosters.settled() {
		s.missing, s.lost = 0, false
		return
	}
	c.followLoss(now)
}

// followLoss tells the loss of the LUN for this node from an outage for all. The peers in
// contact say whether they have it. If as many as a quorum do, this node is the one that
// lost it; if fewer do, fencing all others would leave no quorum, so nobody is fenced.
// The time allows for peers that have not noticed the same outage, or not said so, yet.
func (c *Core) followLoss(now boottime.Instant) {
	s := &c.sense
	if c.cfg.LUNMode != LUNAnd || c.healthy || c.healthyPeers() < c.rosters.quorum {
		s.missing, s.lost = 0, false
		return
	}
	if s.missing == 0 {
		s.missing = now
	}
	end := s.missing.Add(c.cfg.LUNGrace)
	if s.lost = now >= end; !s.lost {
		c.fx.Wake = min(c.fx.Wake, end)
	}
}

// healthyPeers is how many counted peers say that they have the LUN.
func (c *Core) healthyPeers() int {
	n := 0
	for p := range c.view.Counted.All() {
		if p == c.cfg.Roster.Self {
			continue
		}
		if st, _ := c.merger.Statement(p); st != nil && st.LUNHealthy {
			n++
		}
	}
	return n
}

// LUNGrace is the time after which peers in contact would have said that they lost the LUN,
// too: the silence in which a LUN counts as healthy, an I/O's timeout, and the age of
// their statement.
func LUNGrace(heartbeat, ioTimeout, maxAge time.Duration) time.Duration {
	return 3*heartbeat + 2*ioTimeout + maxAge
}
