package netgossip

// retuneFactor is how much the roster must grow or shrink before an instance is made anew
// for it. The parameters follow the logarithm of the size: within this factor the intervals
// of the ADR's table are off by less than two fifths, those of auto by the step that they
// have at the end of the smallest groups, and with auto a piece of news is sent at least 10
// times.
const retuneFactor = 1.5

// NeedsRetune reports whether an instance that runs with the parameters have, made for a
// roster of size tuned, should be made anew with want for a roster of n members.
//
// memberlist captures some values when it is made and reads the others without a lock, so
// there is no other way to change them, and it costs every peer a little: so one member
// more or less never does it, and neither does going back and forth. The evidence of
// reachability must agree within a group at once: when that differs, the size of the change
// does not matter.
func NeedsRetune(have Params, tuned int, want Params, n int) bool {
	if have == want {
		return false
	}
	if have.EvidenceMaxAge != want.EvidenceMaxAge || have.SuspicionMult < 3 && n > 3 {
		return true
	}
	small, large := float64(min(n, tuned)), float64(max(n, tuned))
	return large-small > 1 && large >= retuneFactor*small
}
