package agent

import (
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/words"
	"github.com/fencing-agent/fencing-agent/boottime"
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
	out.OnQuorumLoss, out.TieBreaker = string(a.cfg.OnQuorumLoss), tieBreakerOf(a.core, d.Reason)
	if a.core.AsksAPI(d.Reason) {
		out.Detail = "whether the Kubernetes API can be reached"
	}
	if d.Reason == watchdog.ReasonMaintenance {
		out.DisarmedBy = a.core.DisarmedBy()
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

// tallyText is the count for log lines.
func tallyText(c *watchdog.Core) string {
	return fmt.Sprintf("%d/%d need %d", c.View().Counted.Len(), c.Size(), c.Quorum())
}
