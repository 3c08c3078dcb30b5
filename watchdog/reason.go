package watchdog

// Reason is the reason of a decision. Its strings are the vocabulary of logs, metrics, events and tests.
type Reason uint8

const (
	ReasonStarting          Reason = iota + 1 // quorum has not been seen yet: not armed, nothing to feed
	ReasonNetworkQuorum                       // a majority of the roster is counted
	ReasonSplitPending                        // equal split, arbitration is under way
	ReasonSplitWon                            // equal split, the LUN's grant names this node
	ReasonSplitLost                           // equal split, the grant names the other half
	ReasonSplitUndecided                      // equal split, no decision within the arbitration budget
	ReasonSplitLUN                            // equal split, this node cannot use the LUN
	ReasonSplitAtOdds                         // equal split, and this half is not known to break ties as the other half does
	ReasonAPIReachable                        // equal split, decided by reaching the Kubernetes API
	ReasonAPIUnreachable                      // equal split, decided by not reaching it
	ReasonSplitNoTieBreaker                   // equal split, nothing is configured to decide it
	ReasonQuorumLost                          // less than half of the roster is counted
	ReasonIsolated                            // as ReasonQuorumLost, and the LUN shows a majority that lives without this node
	ReasonLUNQuorum                           // a majority is counted, some of it by the LUN because no network reaches it
	ReasonNobodyLives                         // no majority is counted, and the LUN shows that no part of the group can live
	ReasonLUNAsking                           // less than half is counted, and the LUN is read to find out whether any part of the group lives
	ReasonLUNLost                             // a majority is counted, and this node alone has lost the LUN
	ReasonCondemned                           // this node has certainly lost, and has condemned its boot
	ReasonMaintenance                         // a disarm signal is set
	ReasonStopping                            // planned stop of the agent
)

var reasonNames = [...]string{
	ReasonStarting:          "starting",
	ReasonNetworkQuorum:     "network_quorum",
	ReasonSplitPending:      "split_pending",
	ReasonSplitWon:          "split_won",
	ReasonSplitLost:         "split_lost",
	ReasonSplitUndecided:    "split_undecided",
	ReasonSplitLUN:          "split_lun_unavailable",
	ReasonSplitAtOdds:       "split_at_odds",
	ReasonAPIReachable:      "api_reachable",
	ReasonAPIUnreachable:    "api_unreachable",
	ReasonSplitNoTieBreaker: "split_no_tiebreaker",
	ReasonQuorumLost:        "quorum_lost",
	ReasonIsolated:          "isolated",
	ReasonLUNQuorum:         "lun_quorum",
	ReasonNobodyLives:       "nobody_lives",
	ReasonLUNAsking:         "lun_asking",
	ReasonLUNLost:           "lun_lost",
	ReasonCondemned:         "condemned",
	ReasonMaintenance:       "maintenance",
	ReasonStopping:          "stopping",
}

// String returns the reason's name in logs, metrics and the API.
func (r Reason) String() string { return nameOf(reasonNames[:], r, "invalid") }

// Reasons lists all reasons, for metrics that must exist from the start.
func Reasons() []Reason { return allOf[Reason](reasonNames[:]) }

// nameOf returns the name of a value in a vocabulary that begins with 1; none is the name of all other values.
func nameOf[T ~uint8](names []string, v T, none string) string {
	if v == 0 || int(v) >= len(names) {
		return none
	}
	return names[v]
}

func allOf[T ~uint8](names []string) (all []T) {
	for v := 1; v < len(names); v++ {
		all = append(all, T(v))
	}
	return all
}

// Action is what happens to the watchdog.
type Action uint8

const (
	Feed   Action = iota + 1 // feed until the decision's deadline
	Hold                     // go on feeding while a tie is arbitrated, at most until the deadline
	Starve                   // do not feed; an armed watchdog will fire
	Disarm                   // magic close, if armed
)

// String returns the action's name in logs and the API.
func (a Action) String() string {
	return [...]string{"invalid", "feed", "hold", "starve", "disarm"}[a]
}

// LossPolicy is onQuorumLoss: what a node without quorum does.
type LossPolicy uint8

const (
	LossFence   LossPolicy = iota + 1 // stop feeding
	LossExclude                       // go on feeding, but publish itself as LEFT
	LossWait                          // go on feeding
)

// String returns the policy's name in the configuration.
func (p LossPolicy) String() string {
	return [...]string{"invalid", "fence", "exclude", "wait"}[p]
}
