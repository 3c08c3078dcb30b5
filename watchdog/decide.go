package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// Inputs is all that a decision rests on.
type Inputs struct {
	Now       boottime.Instant
	Condemned bool // this boot is condemned: whatever else is true, nothing feeds it
	Disarm    bool // a disarm signal is set
	Guarded   bool // the watchdog is armed, and peers may count on it
	Released  bool // enough peers know that the guard is given up
	Stopping  bool

	Outcome     netgossip.Outcome
	QuorumUntil boottime.Instant // evidence of the counted majority expires then
	HadQuorum   bool             // quorum was seen since this agent started

	Arbiter    bool // a grant decides ties, on the LUN or in the Lease
	Split      tie.State
	SplitUntil boottime.Instant // SplitWon holds until then
	HoldUntil  boottime.Instant // last counted majority + D_max + A (L8); zero: none was

	// AtOdds says that the half is not known to break ties on the same terms as all others (T1, T2).
	AtOdds bool

	// What the others say on the LUN; at most one of these is true.
	ByLUN       bool // lun.mode or: the networks alone make no majority, and with the LUN there is one
	LUNIsolated bool // a majority says that it lives, and does not count this node (H3)
	LUNLost     bool // lun.mode and: this node has lost the LUN, but a quorum in contact has not

	// What the echo blocks on the LUN say while this node counts no majority (lease.md H1 to H4).
	Excluded bool             // the latest grant names others who may live by it
	Vacant   boottime.Instant // until then, most of the list does not live, and the rest cannot
	Asking   bool             // whether that is so can be asked: this node's path to the LUN is in order

	API      bool             // the kubernetes tie-breaker is configured
	APIUntil boottime.Instant // the API answered, and that may be believed until then
	APIAsked bool             // a fresh result is there, whatever it says
	// LUNLostAsksAPI is quorum.tieBreak: lun-then-kubernetes.
	LUNLostAsksAPI bool

	OnLoss LossPolicy
	// LossLease is how long a decision to feed is valid that rests on OnLoss alone.
	LossLease time.Duration
}

// Decision is the verdict: what to do, why, and until when it may be believed.
type Decision struct {
	Action Action
	Reason Reason
	Until  boottime.Instant // Feed and Hold: do not feed at or after it
	Quorum bool             // this node is part of a side that may live
}

// Decide is the decision. The first row of the table that matches wins; every row has
// its reason. What a node without quorum does is a last, separate mapping.
//
// A planned stop changes the reason only: the watchdog is fed until the stop disarms it,
// and a node that has lost its permission is not rescued by being stopped.
func Decide(in *Inputs) Decision {
	if in.Condemned {
		return Decision{Action: Starve, Reason: ReasonCondemned}
	}
	d := verdict(in)
	if !d.Quorum && d.Action == Starve && in.OnLoss != LossFence && in.HadQuorum {
		d.Action, d.Until = Feed, in.Now.Add(in.LossLease)
	}
	if in.Stopping && (d.Action == Feed || d.Action == Hold) {
		d.Reason = ReasonStopping
	}
	return d
}

func verdict(in *Inputs) Decision {
	if in.Disarm {
		return disarm(in)
	}
	return standing(in)
}

// disarm obeys a disarm signal, once nobody relies on the watchdog any more. Until then the node is fed, or starved, as
// if there were no signal: its peers may already count on its death. A driver that cannot be disarmed goes on being
// fed, which the deadline permits.
func disarm(in *Inputs) Decision {
	if in.Guarded && !in.Released {
		d := standing(in)
		if d.Action == Feed {
			d.Reason = ReasonMaintenance
		}
		return d
	}
	return Decision{Action: Disarm, Reason: ReasonMaintenance, Until: in.Now.Add(in.LossLease), Quorum: in.Outcome == netgossip.Majority}
}

// standing is the verdict on the node's contact with its peers.
func standing(in *Inputs) Decision {
	switch {
	case in.Outcome == netgossip.Majority && in.LUNLost:
		return Decision{Action: Starve, Reason: ReasonLUNLost}
	case in.Outcome == netgossip.Majority && in.QuorumUntil > in.Now:
		return Decision{Action: Feed, Reason: quorate(in), Until: in.QuorumUntil, Quorum: true}
	case in.Outcome == netgossip.EqualSplit:
		return split(in)
	case !in.HadQuorum:
		return Decision{Action: Starve, Reason: ReasonStarting}
	case in.Excluded:
		return Decision{Action: Starve, Reason: ReasonSplitLost}
	case in.LUNIsolated:
		return Decision{Action: Starve, Reason: ReasonIsolated}
	case in.Asking && in.HoldUntil > in.Now && in.Vacant <= in.Now:
		return Decision{Action: Hold, Reason: ReasonLUNAsking, Until: in.HoldUntil} // H4
	default:
		return vacant(in, ReasonQuorumLost)
	}
}

func quorate(in *Inputs) Reason {
	if in.ByLUN {
		return ReasonLUNQuorum
	}
	return ReasonNetworkQuorum
}

// vacant goes on feeding while it is known that nobody lives (H1): this node's death would help nobody.
// This is not a quorum.
func vacant(in *Inputs, otherwise Reason) Decision {
	if in.Vacant > in.Now {
		return Decision{Action: Hold, Reason: ReasonNobodyLives, Until: in.Vacant}
	}
	return Decision{Action: Starve, Reason: otherwise}
}

// split decides an equal split (design section 5, rule 3).
func split(in *Inputs) Decision {
	if in.AtOdds && (in.Arbiter || in.API) {
		return hold(in, ReasonSplitAtOdds, ReasonSplitAtOdds)
	}
	if in.Arbiter {
		switch in.Split {
		case tie.Won:
			if in.SplitUntil > in.Now {
				return Decision{Action: Feed, Reason: ReasonSplitWon, Until: in.SplitUntil, Quorum: true}
			}
			return hold(in, ReasonSplitPending, ReasonSplitUndecided)
		case tie.Lost:
			return Decision{Action: Starve, Reason: ReasonSplitLost} // at once (L8)
		case tie.Unavailable:
			if !in.LUNLostAsksAPI || !in.API {
				return hold(in, ReasonSplitLUN, ReasonSplitLUN)
			}
		default:
			return hold(in, ReasonSplitPending, ReasonSplitUndecided)
		}
	}
	switch {
	case !in.API && !in.HadQuorum:
		return Decision{Action: Starve, Reason: ReasonStarting}
	case !in.API:
		return Decision{Action: Starve, Reason: ReasonSplitNoTieBreaker}
	case in.APIUntil > in.Now:
		return Decision{Action: Feed, Reason: ReasonAPIReachable, Until: in.APIUntil, Quorum: true}
	case in.APIAsked:
		return Decision{Action: Starve, Reason: ReasonAPIUnreachable}
	default:
		return hold(in, ReasonSplitPending, ReasonSplitUndecided)
	}
}

// hold goes on feeding until the arbitration budget that began with the last counted
// majority is used up. A new view, a new tie or a lost grant does not extend it.
func hold(in *Inputs, before, after Reason) Decision {
	switch {
	case in.HoldUntil > in.Now:
		return Decision{Action: Hold, Reason: before, Until: in.HoldUntil, Quorum: true}
	case !in.HadQuorum:
		return Decision{Action: Starve, Reason: ReasonStarting}
	default:
		return vacant(in, after)
	}
}
