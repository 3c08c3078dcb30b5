package words

import "slices"

// refusals lists the six answers if an external confirmation of a death is refused, each with the agent's reasons for
// it. The reason itself is shown as the detail.
var refusals = []struct {
	answer  string
	reasons []string // watchdog.Refusal, as in logs and metrics
}{
	{"this agent cannot take that confirmation", []string{"kind", "off", "no_member", "self"}},
	{"this node has no majority", []string{"no_quorum"}},
	{"that is not the boot to confirm", []string{"unknown_boot", "other_boot", "two_machines", "contradicted"}},
	{"the node may be running", []string{"seen", "seen_by_others", "heard", "writes_lun", "restarts"}},
	{"another member has not answered", []string{"unanswered"}},
	{"the LUN does not show it", []string{"lun_unread", "slot_unread"}},
}

// Refusal returns the answer that a user sees first for one of the agent's reasons; empty: there is none.
func Refusal(reason string) string {
	for _, r := range refusals {
		if slices.Contains(r.reasons, reason) {
			return r.answer
		}
	}
	return ""
}
