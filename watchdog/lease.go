package watchdog

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/k8s/tiebreak"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// LeaseOpened hands over the arbiter of the Lease, before the first step.
func (c *Core) LeaseOpened(a *tiebreak.Arbiter) { c.lease = a }

// Lease gives the state of the Lease for display; nil: ties are not decided by one.
func (c *Core) Lease() *tiebreak.Arbiter { return c.lease }

// LeaseCompleted takes the end of the operation that Effects.LeaseOp handed out.
func (c *Core) LeaseCompleted(done *tiebreak.Completion) {
	if c.lease != nil {
		c.lease.Complete(done)
	}
}

// arbitrateByLease is arbitrate for a tie that the API server's Lease decides. The token is
// given up only when the guard is: a node that is about to stop is fed until then, and it
// may be by the grant that names this token.
func (c *Core) arbitrateByLease(now boottime.Instant) {
	out := c.lease.Step(now, &tiebreak.Input{
		View: c.view.Counted, Tie: c.outcome == netgossip.EqualSplit && c.united, TieSince: c.tieSince, Quorum: c.quorum, Stop: c.stopping && c.release.done,
		Horizon: c.guard.Horizon,
	})
	c.split = diskquorum.Output{Split: splitOf(out.Split), Until: out.Until, Why: out.Why, Token: out.Token, Lock: -1}
	c.fx.LeaseOp, c.fx.Relay = out.Op, out.Relay
	c.fx.Wake = min(c.fx.Wake, out.Wake)
}

func splitOf(s tiebreak.State) diskquorum.SplitState {
	switch s {
	case tiebreak.Won:
		return diskquorum.SplitWon
	case tiebreak.Lost:
		return diskquorum.SplitLost
	case tiebreak.Pending:
		return diskquorum.SplitPending
	default:
		return diskquorum.SplitNone
	}
}
