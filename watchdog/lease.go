package watchdog

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
)

// LeaseOpened hands over the arbiter of the Lease, before the first step.
func (c *Core) LeaseOpened(a *leasequorum.Arbiter) { c.lease = a }

// Lease gives the state of the Lease for display; nil: ties are not decided by one.
func (c *Core) Lease() *leasequorum.Arbiter { return c.lease }

// LeaseCompleted takes the end of the operation that Effects.LeaseOp handed out.
func (c *Core) LeaseCompleted(done *leasequorum.Completion) {
	if c.lease != nil {
		c.lease.Complete(done)
	}
}

// arbitrateByLease is arbitrate for a tie that the API server's Lease decides. The token is
// given up only when the guard is: a node that is about to stop is fed until then, and it
// may be by the grant that names this token.
func (c *Core) arbitrateByLease(now boottime.Instant) {
	in := leasequorum.Input{Input: c.question(), Horizon: c.guard.Horizon}
	in.Stop = c.stopping && c.release.done
	out := c.lease.Step(now, &in)
	c.split = out.Output
	c.fx.LeaseOp, c.fx.Relay = out.Op, out.Relay
	c.fx.Wake = min(c.fx.Wake, out.Wake)
}
