package agent

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/words"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// verdictStatus is the decision in force.
func (a *Agent) verdictStatus(now boottime.Instant) *fencingv1.Verdict {
	d := a.core.Decision()
	out := a.describeVerdict(d)
	out.Since, out.Text = wall(now, a.core.Since()), words.Reason(out)
	if d.Action == watchdog.Feed || d.Action == watchdog.Hold {
		out.ValidFor = durationpb.New(max(0, d.Until.Sub(now)))
	}
	return out
}

// explain says a decision in one sentence.
func (a *Agent) explain(d watchdog.Decision) string { return words.Reason(a.describeVerdict(d)) }

// describeVerdict is a decision as the API has it, but for its times and its sentence.
func (a *Agent) describeVerdict(d watchdog.Decision) *fencingv1.Verdict {
	out := verdictOf(a.core, d)
	out.OnQuorumLoss, out.TieBreaker = string(a.cfg.OnQuorumLoss), tieBreakerOf(a.cfg, d.Reason)
	if undecided := d.Reason == watchdog.ReasonSplitPending || d.Reason == watchdog.ReasonSplitUndecided; undecided && asksAPI(a.core) {
		out.TieBreaker, out.Detail = fencingv1.TieBreaker_TIE_BREAKER_API, "whether the Kubernetes API can be reached"
	}
	if d.Reason == watchdog.ReasonMaintenance {
		out.DisarmedBy = disarmedBy(a.cfg, a.disableFile, a.ownNode)
		if a.core.Succession().Removed() {
			out.DisarmedBy = []string{"the removal of this node from the list of members"}
		}
	}
	return out
}

// verdictOf is what of a verdict the core knows.
func verdictOf(c *watchdog.Core, d watchdog.Decision) *fencingv1.Verdict {
	v := c.View()
	out := &fencingv1.Verdict{
		Permission: publish.PermissionOf(d.Action.String()), Reason: publish.ReasonOf(d.Reason.String()), Quorum: d.Quorum,
		Tally: &fencingv1.Tally{
			Reachable: uint32(v.Seen.Len() + 1), Counted: uint32(v.Counted.Len()),
			Expected: uint32(c.Size()), Quorum: uint32(c.Quorum()),
		},
	}
	switch why := c.Split().Why; d.Reason {
	case watchdog.ReasonSplitPending, watchdog.ReasonSplitUndecided, watchdog.ReasonSplitLUN, watchdog.ReasonLUNLost:
		out.Detail = why
	case watchdog.ReasonSplitWon:
		out.Detail, out.Relayed = why, c.Split().Relayed
	case watchdog.ReasonSplitLost:
		out.GivenUp = why
	}
	return out
}

// tieBreakerOf is what has broken this tie, or would break one.
func tieBreakerOf(c *config.Config, r watchdog.Reason) fencingv1.TieBreaker {
	breakers := c.TieBreakers()
	switch {
	case r == watchdog.ReasonAPIReachable || r == watchdog.ReasonAPIUnreachable:
		return fencingv1.TieBreaker_TIE_BREAKER_API
	case c.UsesLease():
		return fencingv1.TieBreaker_TIE_BREAKER_LEASE
	case slices.Contains(breakers, config.BreakerLUN):
		return fencingv1.TieBreaker_TIE_BREAKER_LUN
	case slices.Contains(breakers, config.BreakerKubernetes):
		return fencingv1.TieBreaker_TIE_BREAKER_API
	}
	return fencingv1.TieBreaker_TIE_BREAKER_NONE
}

// asksAPI reports whether reaching the API server decides a tie that is not decided yet: there is no other
// tie-breaker, or this node cannot use it.
func asksAPI(c *watchdog.Core) bool {
	return c.Lease() == nil && c.Split().Split == tie.Unavailable
}

// tallyText is the count for log lines.
func tallyText(c *watchdog.Core) string {
	return fmt.Sprintf("%d/%d need %d", c.View().Counted.Len(), c.Size(), c.Quorum())
}
