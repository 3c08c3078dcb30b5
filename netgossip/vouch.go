package netgossip

import (
	"math"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// In large rosters not every peer is probed: a network's instance probes random samples, and vouches for all peers as
// long as the samples are answered. These rules bound how long a peer that is gone still counts:
//
//   - A vouch is dated like evidence, by the start of a probe that was answered, and counts for MaxAge from then.
//   - It covers a peer only under four conditions: memberlist calls the peer alive; the peer has answered a probe of
//     ours since the network came up and since the peer was last lost; its latest answer on that network stated that it
//     sees us; and it has not missed a sample since.
//   - A peer that missed a sample is no longer covered and keeps only its own evidence, dated by the vouch at the time
//     of the unanswered probe. If many other peers are lost at the same time, its evidence ends at once.

// Vouched records that the samples of a network begun up to an instant were answered.
func (m *Merger) Vouched(network int, at boottime.Instant) {
	if network >= 0 && network < len(m.up) && m.up[network] {
		m.vouch[network] = max(m.vouch[network], at)
	}
}

// Missed records that a peer did not answer the probes since an instant, or stated that it does not see us. If void is
// set, no evidence from before that instant counts any more. A miss from before the latest answer is ignored.
func (m *Merger) Missed(network, p int, since boottime.Instant, void bool) {
	if !m.valid(network, p) {
		return
	}
	l := m.link(network, p)
	if l.anchor >= since {
		return
	}
	if m.vouches(l) {
		// The vouches from before the peer fell silent were true.
		l.anchor = max(l.anchor, min(m.vouch[network], since))
	}
	l.missed = max(l.missed, since)
	if void {
		l.lostAt = max(l.lostAt, since)
	}
}

// vouches reports whether the vouch of a network covers a link.
func (m *Merger) vouches(l *link) bool {
	return l.alive && l.contact > 0 && l.contact > l.missed && l.contact > l.lostAt
}

// evidence returns the instant at which a peer was last proven to be there on a network.
func (m *Merger) evidence(network, p int) boottime.Instant {
	l := m.link(network, p)
	if m.vouches(l) {
		return max(l.anchor, m.vouch[network])
	}
	return l.anchor
}

// Demand describes how closely the peers have to be watched: how many of the counted peers may vanish before quorum is
// lost.
type Demand struct {
	Others int // members that are counted, without self
	Margin int // how many of them the quorum can do without; 0 in a tie and without quorum
	// Share is the number of networks that notice when a peer vanishes, at least 1: the mean over the peers whose loss
	// matters, rounded down to eighths. These networks share the samples.
	Share float64
	// Any is true if there are several networks, and one of them suffices to reach a peer.
	Any bool
	// Each asks for fresh statements of every peer, whatever the margin.
	Each bool
}

// Demand computes the demand of a view. With several electorates, the one with the smallest margin counts.
func (m *Merger) Demand(v *View, quorum int) Demand {
	up := 0
	for _, u := range m.up {
		if u {
			up++
		}
	}
	d := Demand{Any: m.needed == 1 && up > 1}
	narrow := func(counted, quorum int) {
		others, margin := max(0, counted-1), max(0, counted-quorum)
		if d.Others == 0 || (margin+1)*d.Others < (d.Margin+1)*others {
			d.Others, d.Margin = others, margin
		}
	}
	if m.electorates == nil {
		narrow(v.Counted.Len(), quorum)
	}
	for _, e := range m.electorates {
		narrow(v.Counted.Len()-v.Counted.Minus(e.Members).Len(), e.Quorum)
	}
	d.Share = m.share(v, d.gone(), max(1, up-m.needed+1))
	return d
}

// share returns the mean number of networks that notice when peers vanish, for the peers whose loss the fewest networks
// notice; gone is the share of the peers that vanish. It does not matter that this node's side of a network is up: a
// switch may have cut it off from all peers, or from these.
//
// Let g of the n peers vanish, and G of them be covered by the samples of a network. These samples are drawn from at
// most n - g + G peers, so the probability that k samples are all answered is at most ((n-g)/(n-g+G))^k. For G = g this
// is (1 - g/n)^k. As its logarithm is convex in G, it is at most (1 - g/n)^(k G/g) for a smaller G. Over all networks
// the exponents add up to k times the mean number of networks that cover one of the g. A peer that no vouch covers is
// not a sample: it is probed separately.
func (m *Merger) share(v *View, gone float64, most int) float64 {
	var noticed [8]int // number of peers, by the number of networks that notice
	most = min(most, len(noticed)-1)
	n := 0
	for p := range v.Counted.All() {
		if p == m.roster.Self {
			continue
		}
		n++
		covers := 0
		for k, up := range m.up {
			if up && m.vouches(m.link(k, p)) {
				covers++
			}
		}
		if covers == 0 {
			covers = most + m.needed - 1
		}
		noticed[max(1, min(most, covers-m.needed+1))]++
	}
	worst := int(math.Ceil(gone * float64(n)))
	if worst == 0 {
		return float64(most)
	}
	sum, left := 0, worst
	for networks, peers := range noticed {
		take := min(left, peers)
		sum, left = sum+take*networks, left-take
	}
	return math.Floor(8*float64(sum)/float64(worst)) / 8
}

// Pace is the way in which the peers of one network are probed.
type Pace struct {
	// Interval is the time between two probes of one peer if each peer is probed; 0 if samples are taken.
	Interval time.Duration
	Gap      time.Duration // between two samples
}

// Samples returns how many random samples must all be answered to rule out, except for one case in 10^9, that more than
// margin of the peers are gone. At most half of the peers are assumed to be gone: even with a larger margin, such a
// loss must be noticed before more peers vanish.
func (d Demand) Samples() int {
	return int(math.Ceil(math.Log(certainty) / math.Log(1-d.gone())))
}

// gone returns the share of the peers whose loss has to be noticed.
func (d Demand) gone() float64 {
	if d.Others == 0 {
		return 0.5
	}
	return min(0.5, float64(d.Margin+1)/float64(d.Others))
}

// maxDirectRate bounds the probes per second that Pace allows if each peer is probed. The rate is higher only if there
// are so many peers that their evidence would otherwise get too old.
const maxDirectRate = 125

// Pace chooses between probing every peer and sampling, whichever costs less. A quarter of p.EvidenceMaxAge is left for
// repeated probes. direct reports that every peer is probed at present; a change must save enough.
//
// The samples that are needed within MaxAge are shared among the networks that would all notice the loss.
func (d Demand) Pace(p Params, peers int, direct bool) Pace {
	perSecond := float64(d.Samples()) / max(1, d.Share) / p.EvidenceMaxAge.Seconds()
	slowest := max(p.EvidenceInterval, p.EvidenceMaxAge/2)
	needed := float64(peers) / slowest.Seconds()
	limit := perSecond
	if direct {
		limit *= 1.25
	}
	if d.Others > 0 && !d.Each && needed > limit {
		return Pace{Gap: time.Duration(float64(time.Second) / perSecond)}
	}
	interval := time.Duration(float64(peers) / perSecond * float64(time.Second))
	interval = max(p.EvidenceInterval, min(interval, slowest))
	busy := time.Duration(peers) * time.Second / maxDirectRate
	return Pace{Interval: max(interval, min(busy, max(slowest, p.EvidenceMaxAge*3/5)))}
}

// RoundTime returns the longest time that probing this many peers takes, one after the other.
func (p Params) RoundTime(peers int) time.Duration {
	return min(time.Duration(peers)*time.Second/roundRate, p.EvidenceMaxAge*3/5)
}

// roundRate is the number of peers per second that are probed when all of them have to be probed soon. With very many
// peers the rate is higher, so that the round ends long before the evidence expires.
const roundRate = 200

// SamplingDelay returns how long beyond EvidenceMaxAge a node of a roster of n may still count peers that are gone,
// because its random samples happen to reach only the others. Except for one case in 10^9, this is no longer than
// Demand.Samples take. It is 0 if every peer is probed.
func (p Params) SamplingDelay(n, networks int) time.Duration {
	d := Demand{Others: max(1, n-1), Margin: n, Share: float64(max(1, networks))}
	if d.Pace(p, n-1, false).Interval > 0 {
		return 0
	}
	return p.EvidenceMaxAge
}
