package netgossip

import (
	"math"
	"time"
)

// Params are the effective protocol parameters of one SystemNetwork. Units are in
// the types; the formulas they enter are memberlist's (its config.go) and those of
// docs/tuning.md.
type Params struct {
	GossipInterval   time.Duration // between gossip rounds; free while there is nothing to say
	GossipNodes      int           // fan-out of one gossip round
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

// Tune returns the parameters for a roster of n members. The intervals do not depend
// on n: memberlist's idle cost does not either, and the table of growing intervals
// costs detection time and saves nothing (docs/tuning.md). What grows is the number
// of retransmissions and of indirect helpers.
func Tune(n int) Params {
	p := Params{
		GossipInterval:          100 * time.Millisecond,
		GossipNodes:             3,
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
	return p
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
