package words

import (
	"fmt"
	"strings"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// Reason describes in one sentence why a verdict was made. If this version does not know the agent's reason, or the
// agent's version fills in too few fields, it is the agent's own sentence.
func Reason(v *fencingv1.Verdict) string {
	text := reason(v)
	before := v.GetTieBreaker() == fencingv1.TieBreaker_TIE_BREAKER_UNSPECIFIED
	switch {
	case v.GetText() != "" && (text == "" || before):
		return v.GetText()
	case text == "":
		return fmt.Sprintf("unknown reason %d", v.GetReason())
	case v.GetExpired():
		return "the agent stands still, or did until now: its verdict has passed its deadline. It was: " + text
	}
	return text
}

// reason returns "" if only the agent can describe the reason.
func reason(v *fencingv1.Verdict) string {
	t := v.GetTally()
	tally := fmt.Sprintf(" (%d of %d, %d needed)", t.GetCounted(), t.GetExpected(), t.GetQuorum())
	switch v.GetReason() {
	case fencingv1.Reason_REASON_STARTING:
		return "starting, quorum was not seen yet" + tally
	case fencingv1.Reason_REASON_NETWORK_QUORUM:
		return "majority of the group is reachable" + tally
	case fencingv1.Reason_REASON_QUORUM_LOST:
		return "less than half of the group is reachable" + tally
	case fencingv1.Reason_REASON_ISOLATED:
		return "this node is cut off: the LUN shows that the rest lives without it"
	case fencingv1.Reason_REASON_LUN_QUORUM:
		return fmt.Sprintf("majority of the group, %d of it by the LUN alone (lun.mode: or)", t.GetByLun()) + tally
	case fencingv1.Reason_REASON_NOBODY_LIVES:
		return "no part of the group can live: holding with the others by the LUN" + tally
	case fencingv1.Reason_REASON_LUN_ASKING:
		return "less than half of the group is reachable; asking by the LUN whether anybody lives" + tally
	case fencingv1.Reason_REASON_CONDEMNED:
		if v.GetDetail() != "" {
			return "this node has announced its self-fence" + detail(v, ": ")
		}
		return "this node has lost for certain, and has announced its self-fence: the others live without it"
	case fencingv1.Reason_REASON_LUN_LOST:
		return "this node alone has lost the LUN (lun.mode: and)" + detail(v, ": ")
	case fencingv1.Reason_REASON_MAINTENANCE:
		return maintenance(v)
	case fencingv1.Reason_REASON_STOPPING:
		return "planned stop of the agent"
	}
	if how := split(v); how != "" {
		return fmt.Sprintf("equal split (%d of %d), %s", t.GetCounted(), t.GetExpected(), how)
	}
	return ""
}

// split describes the state of an equal split.
func split(v *fencingv1.Verdict) string {
	switch v.GetReason() {
	case fencingv1.Reason_REASON_SPLIT_PENDING:
		return "being decided" + detail(v, "; waiting for: ")
	case fencingv1.Reason_REASON_SPLIT_UNDECIDED:
		return "not decided in time" + detail(v, "; waiting for: ")
	case fencingv1.Reason_REASON_SPLIT_WON:
		return won(v)
	case fencingv1.Reason_REASON_SPLIT_LOST:
		return lost(v)
	case fencingv1.Reason_REASON_SPLIT_LUN_UNAVAILABLE:
		return "and this node cannot use the LUN" + detail(v, ": ")
	case fencingv1.Reason_REASON_API_REACHABLE:
		return "this node reaches the Kubernetes API"
	case fencingv1.Reason_REASON_API_UNREACHABLE:
		return "this node does not reach the Kubernetes API"
	case fencingv1.Reason_REASON_SPLIT_NO_TIEBREAKER:
		return "and no tie-breaker is configured"
	case fencingv1.Reason_REASON_SPLIT_AT_ODDS:
		return "and this half is not known to break ties as the others do"
	}
	return ""
}

// grant names where the tie-breaker's decision is stored.
func grant(v *fencingv1.Verdict) string {
	switch v.GetTieBreaker() {
	case fencingv1.TieBreaker_TIE_BREAKER_LUN:
		return "the LUN's grant"
	case fencingv1.TieBreaker_TIE_BREAKER_LEASE:
		return "the grant of the Lease"
	}
	return "the grant"
}

func won(v *fencingv1.Verdict) string {
	text := grant(v) + " names this half"
	if v.GetRelayed() {
		text += "; another holder vouches for it, this node has no fresh write of its own"
	}
	return text + detail(v, "; ")
}

func lost(v *fencingv1.Verdict) string {
	if v.GetGivenUp() != "" {
		return grant(v) + " names this node, which has given it up: " + v.GetGivenUp()
	}
	return grant(v) + " names the other half"
}

func maintenance(v *fencingv1.Verdict) string {
	by := v.GetDisarmedBy()
	if len(by) == 0 {
		by = []string{"an annotation or the disable file"}
	}
	how := "disarmed for maintenance: "
	if v.GetPermission() != fencingv1.Permission_PERMISSION_DISARM {
		how = "to be disarmed for maintenance, as soon as a majority knows: "
	}
	return how + strings.Join(by, "; ")
}

func detail(v *fencingv1.Verdict, before string) string {
	if v.GetDetail() == "" {
		return ""
	}
	return before + v.GetDetail()
}
