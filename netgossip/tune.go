package netgossip

import (
	"math"
	"time"
)

// Params holds the effective protocol parameters of one SystemNetwork. They are used in memberlist's formulas (its
// config.go) and in those of docs/measurements/tuning.md.
type Params struct {
	GossipInterval   time.Duration // between gossip rounds; no cost while there is no news
	GossipNodes      int           // fan-out of one gossip round
	GossipPacketSize int           // bytes of one packet that carries news, and of news that is added to a probe
	ProbeInterval    time.Duration // between two SWIM probes
	ProbeTimeout     time.Duration // at most 0.4 ProbeInterval, otherwise every nack comes too late
	IndirectChecks   int
	RetransmitMult   int
	PushPullInterval time.Duration
	TCPTimeout       time.Duration

	SuspicionMult           int // must be >= 3 if N > 3, otherwise Lifeguard's confirmations are off
	SuspicionMaxTimeoutMult int
	AwarenessMaxMultiplier  int

	GossipToTheDeadTime time.Duration
	DeadNodeReclaimTime time.Duration
	RejoinInterval      time.Duration // between attempts to join missing roster members

	// EvidenceInterval is the time between two answered probes of one peer. EvidenceTimeout is the wait for an answer,
	// after which the peer is probed again.
	EvidenceInterval time.Duration
	EvidenceTimeout  time.Duration
	// EvidenceMaxAge is D_max: older evidence does not count. For every N, it bounds the time in which an isolated node
	// notices its isolation.
	EvidenceMaxAge time.Duration
}

// SuspectAfter returns how long a peer may owe an answer before it is shown as a suspect. It is probed again after each
// EvidenceTimeout, so two lost packets are not enough.
func (p Params) SuspectAfter() time.Duration { return 3 * p.EvidenceTimeout }

// Profile names a rule by which parameters follow the number of members.
type Profile string

// The profiles. docs/tuning.md lists their cost, docs/measurements/tuning.md their values.
const (
	ProfileAuto Profile = "auto" // the measured best
	ProfileADR  Profile = "adr"  // the table of intervals that grow with the number of members
	ProfileFast Profile = "fast" // auto at twice the pace
	ProfileCalm Profile = "calm" // auto at half the pace
)

// Profiles lists all profiles.
func Profiles() []Profile { return []Profile{ProfileAuto, ProfileADR, ProfileFast, ProfileCalm} }

// Params returns the parameters for a roster of n members; an unknown profile is auto.
func (p Profile) Params(n int) Params {
	switch p {
	case ProfileADR:
		return tuneADR(n)
	case ProfileFast:
		return scaled(Tune(n), 1, 2)
	case ProfileCalm:
		return scaled(Tune(n), 2, 1)
	default:
		return Tune(n)
	}
}

// smallGroup is the largest group that is probed at the quicker pace. In such a group the time of detection is the wait
// for the first probe and the suspicion, and few members cause little traffic. In larger groups suspicion and
// dissemination take longer anyway, and a lossy network needs the longer time to refute a suspicion.
const smallGroup = 10

// Tune returns the parameters for a roster of n members. Above the smallest groups the
// intervals of probes do not depend on n: memberlist's idle cost does not either, and the table of
// growing intervals costs detection time and saves nothing (docs/measurements/tuning.md). Only the numbers of
// retransmissions and of indirect helpers grow.
func Tune(n int) Params {
	p := Params{
		GossipInterval:          100 * time.Millisecond,
		GossipNodes:             3,
		GossipPacketSize:        gossipPacketSize(n),
		ProbeInterval:           500 * time.Millisecond,
		ProbeTimeout:            200 * time.Millisecond,
		IndirectChecks:          8,
		RetransmitMult:          retransmitMult(n),
		PushPullInterval:        90 * time.Second,
		TCPTimeout:              2 * time.Second,
		SuspicionMult:           4,
		SuspicionMaxTimeoutMult: 6,
		AwarenessMaxMultiplier:  8,
		GossipToTheDeadTime:     30 * time.Second,
		DeadNodeReclaimTime:     10 * time.Second,
		RejoinInterval:          2 * time.Second,
		EvidenceInterval:        time.Second,
		EvidenceTimeout:         200 * time.Millisecond,
		EvidenceMaxAge:          4 * time.Second,
	}
	if n < 10 {
		p.IndirectChecks = 3
	}
	if n > fullPackets {
		p.GossipInterval = 200 * time.Millisecond
	}
	if n > largeGroup {
		p.GossipInterval, p.IndirectChecks = 400*time.Millisecond, 5
	}
	if n <= smallGroup {
		p.ProbeInterval, p.ProbeTimeout = 300*time.Millisecond, 120*time.Millisecond
	}
	return p
}

// fullPackets is the largest group in which half of the members may be declared dead at memberlist's usual pace. In
// larger groups memberlist sends fewer and smaller packets.
const fullPackets = 100

// largeGroup is the largest group that uses the pace of groups above fullPackets. In larger groups the probes after a
// cut leave less room for gossip: the sweep alone is 416 probes a second.
const largeGroup = 300

// gossipPacketSize bounds memberlist's packets while it has more news than fit into one. After half of a large group is
// gone, every packet is full: those of gossip, of probes and of helpers. The news of a single death fits into any
// packet, so the bound then has no cost.
func gossipPacketSize(n int) int {
	if n <= fullPackets {
		return 1400
	}
	return 400
}

// retransmitMult keeps the transmissions per broadcast, mult*ceil(log10(n+1)), within 12..24: with fewer, small
// clusters lose refutations; more only cost bytes.
func retransmitMult(n int) int {
	switch decades := int(math.Ceil(math.Log10(float64(n + 1)))); {
	case decades <= 1:
		return 12
	case decades == 2:
		return 10
	case decades == 3:
		return 8
	default:
		return 6
	}
}

// scaled multiplies the times of detection by num/den: all times that must keep their proportion to the probe interval.
// Times that are not about detection (streams, full exchanges, memory of dead members) stay.
func scaled(p Params, num, den time.Duration) Params {
	for _, d := range []*time.Duration{
		&p.GossipInterval, &p.ProbeInterval, &p.ProbeTimeout,
		&p.EvidenceInterval, &p.EvidenceTimeout, &p.EvidenceMaxAge,
	} {
		*d = *d * num / den
	}
	return p
}

// adrTable is the ADR's table of intervals by the number of members.
var adrTable = []struct {
	members       int
	gossip, probe time.Duration
}{
	{3, 200 * time.Millisecond, 500 * time.Millisecond},
	{10, 250 * time.Millisecond, 750 * time.Millisecond},
	{50, 400 * time.Millisecond, time.Second},
	{100, 500 * time.Millisecond, 1500 * time.Millisecond},
	{300, 700 * time.Millisecond, 2 * time.Second},
	{500, time.Second, 2500 * time.Millisecond},
	{1000, 1500 * time.Millisecond, 3 * time.Second},
}

// ADRIntervals returns the intervals of the ADR's table. Between two rows they are interpolated over log10(n), which
// nearly fits the table's own columns, and rounded to 10 ms. Outside the table the nearest row is used.
func ADRIntervals(n int) (gossip, probe time.Duration) {
	last := adrTable[len(adrTable)-1]
	if n >= last.members {
		return last.gossip, last.probe
	}
	low := adrTable[0]
	for _, high := range adrTable {
		if n <= high.members {
			if n <= low.members {
				return low.gossip, low.probe
			}
			at := math.Log(float64(n)/float64(low.members)) / math.Log(float64(high.members)/float64(low.members))
			between := func(a, b time.Duration) time.Duration {
				return (a + time.Duration(at*float64(b-a))).Round(10 * time.Millisecond)
			}
			return between(low.gossip, high.gossip), between(low.probe, high.probe)
		}
		low = high
	}
	return last.gossip, last.probe
}

// tuneADR returns the table's values, and fills in the parameters that the table leaves open. The probe timeout is at
// most 0.4 of the interval, so that nacks come in time. The suspicion column fits the multipliers 4, 4, 3, 3, 3, 2, 2.
// But with 2, no member is asked to confirm a suspicion, so 3 is the minimum: suspicion takes 20 s with 500 members and
// 27 s with 1000 members. Parameters that are not in the table are as in auto.
func tuneADR(n int) Params {
	p := Tune(n)
	p.GossipInterval, p.ProbeInterval = ADRIntervals(n)
	p.ProbeTimeout = min(500*time.Millisecond, p.ProbeInterval*2/5)
	if n > 10 {
		p.SuspicionMult = 3
	}
	return p
}
