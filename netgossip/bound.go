package netgossip

import (
	"math"
	"time"
)

// The functions below compute, from the parameters, the times and counts for a roster of n members. They use
// memberlist's own formulas (its util.go and suspicion.go), and sums of them that docs/measurements/tuning.md derives.

// certainty is the probability with which WorstDetection may be wrong.
const certainty = 1e-9

// SuspicionMin returns the time that a suspect has to refute the suspicion once enough others confirm it. It grows with
// the decimal logarithm of n, of which memberlist keeps three digits.
func (p Params) SuspicionMin(n int) time.Duration {
	thousandths := time.Duration(1000 * max(1, math.Log10(max(1, float64(n)))))
	return time.Duration(p.SuspicionMult) * thousandths * p.ProbeInterval / 1000
}

// SuspicionMax returns the time that a suspect has to refute the suspicion while no other member confirms it.
func (p Params) SuspicionMax(n int) time.Duration {
	if p.Confirmations(n) == 0 {
		return p.SuspicionMin(n)
	}
	return p.SuspicionMin(n) * time.Duration(p.SuspicionMaxTimeoutMult)
}

// AccusedSince returns the minimum age of the accusation when memberlist reports a death. The accusation begins with
// the probe that was not answered; memberlist waits a ProbeInterval after it before it suspects the member. A member
// that has answered since then is not dead, no matter how many members say so. AccusedSince is short compared to D_max.
func (p Params) AccusedSince() time.Duration {
	return min(p.ProbeInterval+p.SuspicionMin(1), p.EvidenceMaxAge/2)
}

// Confirmations returns the number of other members that must also suspect a member before the time shrinks from
// SuspicionMax to SuspicionMin. It is 0 if the group does not have so many other members: the first suspicion then runs
// for SuspicionMin.
func (p Params) Confirmations(n int) int {
	if k := p.SuspicionMult - 2; k > 0 && n-2 >= k {
		return k
	}
	return 0
}

// Transmissions returns how often one member passes on one piece of news.
func (p Params) Transmissions(n int) int {
	return p.RetransmitMult * int(math.Ceil(math.Log10(float64(max(1, n)+1))))
}

// ProbeWindow returns the longest time that one failing probe may take: a member that doubts its own health waits
// AwarenessMaxMultiplier times as long as a healthy one.
func (p Params) ProbeWindow() time.Duration {
	return p.ProbeInterval * time.Duration(max(1, p.AwarenessMaxMultiplier))
}

// Spread returns the time that a piece of news needs to reach all members if no packet is lost: each round of gossip
// multiplies the number of members that know it by 1 + GossipNodes.
func (p Params) Spread(n int) time.Duration {
	rounds := math.Ceil(math.Log(max(2, float64(n))) / math.Log(1+max(1, float64(p.GossipNodes))))
	return p.GossipInterval * time.Duration(rounds)
}

// TypicalDetection returns the mean time from a crash until all survivors have learnt of it from memberlist, if they
// are healthy. It is the sum of the wait for the first probe of the dead member, the probe, the suspicion, and the
// spread of the news.
func (p Params) TypicalDetection(n int) time.Duration {
	if n < 2 {
		return 0
	}
	first := p.ProbeInterval * time.Duration(n-1) / time.Duration(n)
	return (first + p.ProbeInterval + p.SuspicionMin(n) + p.Spread(n)).Round(time.Millisecond)
}

// WorstDetection bounds the same time for survivors that hear each other, but are as slow as Lifeguard allows and find
// no other member to confirm the suspicion. In each round a member is probed by at least one other with a probability
// of at least 1-1/e, so 21 rounds miss it with a probability below 1e-9. And no member is left out for longer than 2n-3
// rounds, because each member probes a permutation of the others.
//
// No decision waits for it: evidence older than EvidenceMaxAge does not count.
func (p Params) WorstDetection(n int) time.Duration {
	if n < 2 {
		return 0
	}
	rounds := min(2*n-3, int(math.Ceil(-math.Log(certainty))))
	window := p.ProbeWindow()
	return time.Duration(rounds)*window + window + p.SuspicionMax(n) + p.Spread(n)
}
