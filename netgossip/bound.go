package netgossip

import (
	"math"
	"time"
)

// The functions below compute what follows from parameters for a roster of n members.
// They are memberlist's own formulas (its util.go and suspicion.go), and sums of them
// that docs/measurements/tuning.md derives.

// certainty is the probability with which WorstDetection may be wrong.
const certainty = 1e-9

// SuspicionMin is how long a suspect may defend itself once enough others confirm. It
// grows with the decimal logarithm of n, of which memberlist keeps three digits.
func (p Params) SuspicionMin(n int) time.Duration {
	thousandths := time.Duration(1000 * max(1, math.Log10(max(1, float64(n)))))
	return time.Duration(p.SuspicionMult) * thousandths * p.ProbeInterval / 1000
}

// SuspicionMax is how long a suspect may defend itself while nobody confirms.
func (p Params) SuspicionMax(n int) time.Duration {
	if p.Confirmations(n) == 0 {
		return p.SuspicionMin(n)
	}
	return p.SuspicionMin(n) * time.Duration(p.SuspicionMaxTimeoutMult)
}

// AccusedSince is how long ago, at least, the accusation of a member began whose death is news: with the probe that it
// did not answer, which memberlist gives a ProbeInterval before it suspects. A member that answered since then is not
// dead, however many say so. AccusedSince is also short compared to D_max.
func (p Params) AccusedSince() time.Duration {
	return min(p.ProbeInterval+p.SuspicionMin(1), p.EvidenceMaxAge/2)
}

// Confirmations is how many other members must suspect a member as well for the time to
// shrink from SuspicionMax to SuspicionMin. It is 0 where this many others do not exist:
// the first suspicion then runs for SuspicionMin.
func (p Params) Confirmations(n int) int {
	if k := p.SuspicionMult - 2; k > 0 && n-2 >= k {
		return k
	}
	return 0
}

// Transmissions is how often one member passes on one piece of news.
func (p Params) Transmissions(n int) int {
	return p.RetransmitMult * int(math.Ceil(math.Log10(float64(max(1, n)+1))))
}

// ProbeWindow is the longest that one failing probe may take: a member that doubts its own
// health waits AwarenessMaxMultiplier times as long as a healthy one.
func (p Params) ProbeWindow() time.Duration {
	return p.ProbeInterval * time.Duration(max(1, p.AwarenessMaxMultiplier))
}

// Spread is how long a piece of news needs to reach all members when nothing is lost: each round of gossip multiplies
// those who know it by 1 + GossipNodes.
func (p Params) Spread(n int) time.Duration {
	rounds := math.Ceil(math.Log(max(2, float64(n))) / math.Log(1+max(1, float64(p.GossipNodes))))
	return p.GossipInterval * time.Duration(rounds)
}

// TypicalDetection is the mean time from a crash until all survivors, if they are healthy, know of it from memberlist:
// the wait for the first probe of the dead member, the probe, the suspicion, and the news of it.
func (p Params) TypicalDetection(n int) time.Duration {
	if n < 2 {
		return 0
	}
	first := p.ProbeInterval * time.Duration(n-1) / time.Duration(n)
	return (first + p.ProbeInterval + p.SuspicionMin(n) + p.Spread(n)).Round(time.Millisecond)
}

// WorstDetection bounds the same time for survivors that are as sick as Lifeguard lets
// them be and find nobody to confirm, as long as they hear each other. A member is probed
// by somebody in each round with probability 1-1/e at least, so that 21 rounds miss it with
// a probability below 1e-9; and no member is left out for longer than 2n-3 rounds, because
// each goes through a permutation of the others.
//
// Nobody has to wait that long: evidence older than EvidenceMaxAge counts for nothing.
func (p Params) WorstDetection(n int) time.Duration {
	if n < 2 {
		return 0
	}
	rounds := min(2*n-3, int(math.Ceil(-math.Log(certainty))))
	window := p.ProbeWindow()
	return time.Duration(rounds)*window + window + p.SuspicionMax(n) + p.Spread(n)
}
