package picture

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/words"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Message is the verdict as in the API, without its times and its sentence.
func (v *Verdict) Message() *fencingv1.Verdict {
	d, t := &v.Decision, &v.Tally
	out := &fencingv1.Verdict{
		Permission: publish.PermissionOf(d.Action.String()), Reason: publish.ReasonOf(d.Reason.String()), Quorum: d.Quorum,
		Tally: &fencingv1.Tally{
			Reachable: uint32(t.Reachable), Counted: uint32(t.Counted), ByLun: uint32(t.ByLUN), Expected: uint32(t.Expected), Quorum: uint32(t.Quorum),
		},
		OnQuorumLoss: string(v.OnQuorumLoss), TieBreaker: tieBreakerOf(v.TieBreaker.Status),
	}
	switch d.Reason {
	case watchdog.ReasonSplitPending, watchdog.ReasonSplitUndecided, watchdog.ReasonSplitLUN, watchdog.ReasonLUNLost:
		out.Detail = v.Why
	case watchdog.ReasonSplitWon:
		out.Detail, out.Relayed = v.Why, v.Relayed
	case watchdog.ReasonSplitLost:
		out.GivenUp = v.Why
	case watchdog.ReasonCondemned:
		if v.OrderedBy != "" {
			out.Detail = "ordered by " + v.OrderedBy + ", where \"fencectl history\" says who gave the order, and why"
		}
	case watchdog.ReasonMaintenance:
		out.DisarmedBy = v.DisarmedBy
	}
	if v.WaitsForAPI {
		out.Detail = "whether the Kubernetes API can be reached"
	}
	return out
}

// Text is the verdict in one sentence.
func (v *Verdict) Text() string { return words.Reason(v.Message()) }

// String is the tally for log lines.
func (t Tally) String() string { return fmt.Sprintf("%d/%d need %d", t.Counted, t.Expected, t.Quorum) }

// tieBreakerOf is the API's value for a tie-breaker, by the tie-breaker's name. A name that is not in the API appears
// only in the sentence.
func tieBreakerOf(name string) fencingv1.TieBreaker {
	if name == "" {
		return fencingv1.TieBreaker_TIE_BREAKER_NONE
	}
	return fencingv1.TieBreaker(fencingv1.TieBreaker_value["TIE_BREAKER_"+strings.ToUpper(name)])
}

// verdict is the decision in force.
func (f *Facts) verdict() *fencingv1.Verdict {
	d, out := &f.Verdict.Decision, f.Verdict.Message()
	out.Since, out.Text = f.wall(f.Verdict.Since), words.Reason(out)
	if d.Action == watchdog.Feed || d.Action == watchdog.Hold {
		out.ValidFor = durationpb.New(max(0, d.Until.Sub(f.Now)))
	}
	return out
}

// judge checks the clock before a status is sent: a verdict is valid until its deadline, however old the facts are, and
// the next verdict is not known yet.
func judge(st *fencingv1.Status, now, until boottime.Instant) {
	v := st.GetVerdict()
	if v.GetPermission() != fencingv1.Permission_PERMISSION_FEED && v.GetPermission() != fencingv1.Permission_PERMISSION_HOLD {
		return
	}
	if until > now {
		v.ValidFor = durationpb.New(until.Sub(now))
		return
	}
	v.Permission, v.Quorum, v.ValidFor, v.Expired = fencingv1.Permission_PERMISSION_STARVE, false, nil, true
	v.Text = words.Reason(v)
	for _, n := range st.GetNodes() {
		if n.GetName() == st.GetSelf().GetName() {
			n.Feeding, n.Available = false, false
		}
	}
}
