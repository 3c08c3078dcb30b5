package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// Inputs holds everything that a decision depends on.
type Inputs struct {
	Now       boottime.Instant
	Condemned bool // this boot is condemned: no other input lets the watchdog be fed
	Disarm    bool // a disarm signal is set
	Guarded   bool // the watchdog is armed, and peers may rely on it
	Released  bool // enough peers know that the guard is given up
	Stopping  bool

	Outcome     netgossip.Outcome
	QuorumUntil boottime.Instant // when the evidence of the counted majority expires
	HadQuorum   bool             // quorum has been seen since this agent started

	Arbiter    bool // a grant decides ties, on the LUN or in the Lease
	Split      tie.State
	SplitUntil boottime.Instant // when SplitWon ends
	HoldUntil  boottime.Instant // last counted majority + D_max + A (L8); zero: none was

	// AtOdds says that this half is not known to break ties by the same terms as the others (T1, T2).
	AtOdds bool

	// What the others' blocks on the LUN show; at most one of these is true.
	ByLUN       bool // lun.mode "or": this node counts a majority only together with the LUN
	LUNIsolated bool // a majority states that it lives, and does not count this node (H3)
	LUNLost     bool // lun.mode "and": this node has lost the LUN, but a quorum in contact has not

	// What the echo blocks on the LUN show while this node counts no majority (lease.md H1 to H4).
	Excluded bool             // the latest grant names others who may live by it
	Vacant   boottime.Instant // until then, most members state that they do not live, and the rest cannot live
	Asking   bool             // this node can find out whether that is so: its path to the LUN works

	API      bool             // the kubernetes tie-breaker is configured
	APIUntil boottime.Instant // the API answered, and the answer counts until then
	APIAsked bool             // a fresh result is there, positive or negative
	// LUNLostAsksAPI is quorum.tieBreak: lun-then-kubernetes.
	LUNLostAsksAPI bool

	OnLoss LossPolicy
	// LossLease is the lifetime of a decision to feed that depends on OnLoss alone.
	LossLease time.Duration
}

// Decision is the verdict: the action, the reason, and the time until which it is valid.
type Decision struct {
	Action Action
	Reason Reason
	Until  boottime.Instant // Feed and Hold: no feed at or after this moment
	Quorum bool             // this node is part of a side that may live
}

// Decide makes the decision. The first matching row of the table wins; every row has its reason. The policy for a node
// without quorum is applied in a separate last step.
//
// A planned stop changes the reason only: the watchdog is fed until the stop disarms it, and a stop does not save a
// node that has lost its permission.
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

// disarm obeys a disarm signal as soon as no peer relies on the watchdog any more. Until then the node is fed, or
// starved, as if there were no signal: its peers may already rely on its death. A watchdog that cannot be disarmed is
// fed further, which the deadline permits.
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

// standing returns the verdict that follows from the node's contact with its peers.
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

// vacant lets the node feed while it is known that no part of the group lives (H1): this node's death would then help
// no other node. This is not a quorum.
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

// hold lets the node feed until the end of the arbitration budget, which began with the last counted majority. A new
// view, a new tie or a lost grant does not extend it.
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
