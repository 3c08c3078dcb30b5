package config

import (
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

const (
	// LeaseTerm is how long a grant of the Lease is valid after the start of a write of the Lease. It must be the same
	// on all nodes of a group, so it is not a setting.
	LeaseTerm = 2 * time.Minute
	// LeaseStagger is how long each node of a half leaves the Lease to the previous node: longer than a write to a
	// healthy API server takes until others see it.
	LeaseStagger = 200 * time.Millisecond

	longestLeaseRequest = 2 * time.Second
)

// UsesLease reports whether a Lease of the API server decides ties.
func (c *Config) UsesLease() bool {
	return c.Quorum.TieBreak == TieBreakLease && c.BreaksTiesBy(BreakerKubernetes)
}

// LeaseExpiry is how long a version of the Lease must have been seen, at least, before nodes that are not its holders
// replace it: by then its holders no longer feed, and watchdogs like this node's have fired. The time is longer if a
// holder states a longer horizon. n is the size of the group.
func (c *Config) LeaseExpiry(n int) time.Duration {
	return LeaseTerm + max(LeaseTerm/8, c.BudgetFor(c.LatestReset(), n).Horizon())
}

// LongestHorizon is the horizon of a node that has not stated its own: the one for a watchdog with the longest timeout
// and the latest driver.
func (c *Config) LongestHorizon(n int) time.Duration {
	return c.BudgetFor(watchdog.LatestOfAny(watchdog.LongestTimeout), n).Horizon()
}

// LeaseRequestTimeout is when a request for the Lease is given up: so early that finding out what became of it, and
// another request, fit into the arbitration budget.
func (c *Config) LeaseRequestTimeout() time.Duration {
	return min(longestLeaseRequest, c.ArbitrationBudget()/5)
}

// LeaseRetry is the pause after a request without a usable answer, and between two reads in a tie.
func (c *Config) LeaseRetry() time.Duration { return c.LeaseRequestTimeout() / 4 }

// LeaseBudget is the time that deciding by the Lease may take in a group of n: the turns of a half, a request that is
// given up, the read that shows what became of it, and the next request.
func (c *Config) LeaseBudget(n int) time.Duration {
	return time.Duration(n/2)*LeaseStagger + 3*c.LeaseRequestTimeout() + c.LeaseRetry()
}

// checkLease refuses a Lease together with a LUN: one half could win the Lease and the other half the LUN.
func checkLease(c *Config, r *report) {
	const key = "quorum.tieBreak"
	if c.Quorum.TieBreak != TieBreakLease || !r.intact(key, "lun.devices") {
		return
	}
	switch {
	case len(c.LUN.Devices) > 0:
		r.problem(key, "cannot be combined with lun.devices: one half could win the Lease and the other half the LUN", TieBreakLease,
			"lease without a LUN, or another value")
		return
	case c.Members.Source == SourceController:
		r.problem(key, "needs an API server, and with members.source: controller the agent talks to none", TieBreakLease, "another value, or source: kubernetes")
	case !c.UsesKubernetes() && r.intact("kubernetes.kubeconfig"):
		r.problem(key, "needs an API server, and this is not a pod", TieBreakLease, "lease with kubernetes.kubeconfig, or another value")
		return
	}
	n := len(c.Members.Static)
	need, a := c.LeaseBudget(n), c.ArbitrationBudget()
	if need > a && r.intact("lun.heartbeatInterval", "lun.ioTimeout", "members") {
		r.problem(key, fmt.Sprintf("leaves no time to arbitrate among %d members: turns of %v each in a half and three requests of up to %v need %v, the arbitration budget of 4 lun.heartbeatInterval + 3 lun.ioTimeout is %v",
			n, LeaseStagger, c.LeaseRequestTimeout(), need, a), TieBreakLease, "lease with a greater lun.ioTimeout or timing: careful, which make the budget longer, also without a LUN")
	}
}
