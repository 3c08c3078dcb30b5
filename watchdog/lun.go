package watchdog

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// lun is the LUN as a tie-breaker, and the slots beside it, which no other tie-breaker has. It is there before
// the LUN was opened, and cannot be used until then.
type lun struct {
	arbiter *diskquorum.Arbiter // nil until the LUN was opened
	input   diskquorum.Input
	latest  *diskquorum.Output // nil: of no step
	closed  tie.Output
}

// Name implements tie.Breaker.
func (l *lun) Name() tie.Name {
	n := tie.Name{Setting: "lun", Status: "lun"}
	if l.arbiter != nil {
		n.Log = l.arbiter.Log()
	}
	return n
}

// SetRoster implements tie.Breaker.
func (l *lun) SetRoster(directory *roster.Roster, expected int) {
	if l.arbiter != nil {
		l.arbiter.SetRoster(directory, expected)
	}
}

// Step implements tie.Breaker.
func (l *lun) Step(now boottime.Instant, in *tie.Input) *tie.Output {
	if l.arbiter == nil {
		l.closed = tie.Output{Split: tie.Unavailable, Why: "the LUN is not open", Wake: boottime.Never}
		return &l.closed
	}
	l.input.Input = *in
	l.latest = l.arbiter.Step(now, &l.input)
	return &l.latest.Output
}

// Grant implements tie.Breaker.
func (l *lun) Grant(now boottime.Instant) (g tie.Grant, ok bool) {
	if l.arbiter == nil {
		return g, false
	}
	st := l.arbiter.Status(now)
	slices.Sort(st.HolderNames)
	return tie.Grant{Instance: st.Instance, Holders: st.HolderNames, Held: st.Held, For: st.HeldFor, Pending: st.Pending}, true
}

// Arbiter gives the LUN's state for display; nil while no LUN was opened.
func (c *Core) Arbiter() *diskquorum.Arbiter { return c.lun.arbiter }

// LUNOpened hands over the arbiter once the LUN could be opened for the first time. There is none beside
// another tie-breaker, see BreakTiesBy.
func (c *Core) LUNOpened(a *diskquorum.Arbiter) {
	c.lun.arbiter, c.proof.slots = a, a
	if c.sentence.condemned {
		a.Condemn()
	}
	a.SetRoster(c.cfg.Roster, c.rosters.base().Size())
}

// IOCompleted takes the end of a LUN operation.
func (c *Core) IOCompleted(now boottime.Instant, done *diskquorum.Completion) {
	if c.lun.arbiter != nil {
		c.lun.arbiter.Complete(now, done)
	}
}

// SlotLocked takes the outcome of the lock asked for in Effects.Lock, for one device.
func (c *Core) SlotLocked(now boottime.Instant, device int, err error) {
	if c.lun.arbiter != nil {
		c.lun.arbiter.Locked(now, device, err)
	}
}

// writeSlot says what the slot of this node is to tell, and whether those of the others are waited for.
func (c *Core) writeSlot(now boottime.Instant) {
	if c.lun.arbiter == nil {
		return
	}
	in := &c.lun.input
	in.Own = c.statement(now)
	in.Own.Stated = boottime.Instant(now.Sub(c.cfg.Booted))
	in.WallTime = c.wall
	in.Look = c.proof.waits || c.termsWait()
}

// doIO takes over what the LUN wants done.
func (c *Core) doIO() {
	c.healthy = false
	c.fx.Ops, c.fx.Lock, c.fx.Attempt = nil, -1, nil
	if out := c.lun.latest; out != nil {
		c.healthy = out.Healthy
		c.fx.Ops, c.fx.Lock, c.fx.Attempt = out.Ops, out.Lock, out.Ended
	}
}

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
