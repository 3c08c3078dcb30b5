package netgossip

import (
	"math"
	"time"
)

// Params are the effective protocol parameters of one SystemNetwork. Units are in
// the types; the formulas they enter are memberlist's (its config.go) and those of
// docs/measurements/tuning.md.
type Params struct {
	GossipInterval   time.Duration // between gossip rounds; free while there is nothing to say
	GossipNodes      int           // fan-out of one gossip round
	GossipPacketSize int           // bytes of one packet that carries news, and of news that ride on a probe
	ProbeInterval    time.Duration // one SWIM probe each
	ProbeTimeout     time.Duration // at most 0.4 ProbeInterval, or every nack comes too late
	IndirectChecks   int
	RetransmitMult   int
	PushPullInterval time.Duration
	TCPTimeout       time.Duration

	SuspicionMult           int // >= 3 where N > 3, else Lifeguard's confirmations are off
	SuspicionMaxTimeoutMult int
	AwarenessMaxMultiplier  int

	GossipToTheDeadTime time.Duration
	DeadNodeReclaimTime time.Duration
	RejoinInterval      time.Duration // between attempts to join roster members that are missing

	// EvidenceInterval is the time between two answered probes of one peer;
	// EvidenceTimeout the wait for an answer, after which the peer is asked again.
	EvidenceInterval time.Duration
	EvidenceTimeout  time.Duration
	// EvidenceMaxAge is D_max: older evidence counts for nothing. It bounds the time
	// in which an isolated node notices, for every N.
	EvidenceMaxAge time.Duration
}

// SuspectAfter is how long a peer may owe an answer until it is shown as a suspect: it is asked again after each
// EvidenceTimeout, so two lost packets do not make it one.
func (p Params) SuspectAfter() time.Duration { return 3 * p.EvidenceTimeout }

// Profile names a rule by which parameters follow the number of members.
type Profile string

// The profiles. What they cost is in docs/tuning.md, their values are in docs/measurements/tuning.md.
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

// smallGroup is the largest group that is probed at the quicker pace. There the wait for the first probe and the
// suspicion are the whole time of detection, and few members make little traffic; in larger groups, suspicion and
// dissemination grow by themselves, and a lossy network needs the longer time to refute.
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

// fullPackets is the largest group in which half of the members may be declared dead at
// memberlist's usual pace. In larger ones it sends smaller packets and fewer of them.
const fullPackets = 100

// largeGroup is the largest group at the pace of those above fullPackets. In larger ones the evidence
// of a cut leaves less room: the sweep alone is 416 probes a second.
const largeGroup = 300

// gossipPacketSize bounds what memberlist sends while it has more news than fit: after half of a
// large group is gone every packet is full, those of gossip and those of probes and helpers. A
// single death fits into any packet, so the bound costs nothing then.
func gossipPacketSize(n int) int {
	if n <= fullPackets {
		return 1400
	}
	return 400
}

// retransmitMult keeps transmissions per broadcast, mult*ceil(log10(n+1)), within
// 12..24: fewer lose refutations in small clusters, more only cost bytes.
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

// scaled changes the pace of detection to num/den: everything that must keep its
// proportion to the probe interval, or the profile would be another one. Times that are not
// about detection (streams, full exchanges, memory of the dead) stay.
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

// ADRIntervals returns the intervals of the ADR's table. Between two of its rows they are
// interpolated over log10(n), as the table's own columns nearly are, and rounded to 10 ms;
// outside of it the nearest row holds.
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

// tuneADR is the table with what it leaves open. The probe timeout is at most 0.4 of the
// interval, so that nacks come in time. The suspicion column fits the multipliers 4, 4, 3,
// 3, 3, 2, 2; but with 2 nobody is asked to confirm a suspicion, so 3 is the least, which
// makes the suspicion of 500 members 20 s and that of 1000 members 27 s. Parameters that are not in the table are as
// in auto.
func tuneADR(n int) Params {
	p := Tune(n)
	p.GossipInterval, p.ProbeInterval = ADRIntervals(n)
	p.ProbeTimeout = min(500*time.Millisecond, p.ProbeInterval*2/5)
	if n > 10 {
		p.SuspicionMult = 3
	}
	return p
}
