package probing

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Guard: on a slow network the answer to a probe from before a miss may arrive after the miss. It does not undo the
// miss: the merger relies on it, and would not apply a vouch to this peer.
func TestAnswerFromBeforeTheMissDoesNotUndoIt(t *testing.T) {
	r := newRig(t, 200)
	p := r.all[0]
	old, sampled := start.Add(time.Second), start.Add(2*time.Second)
	if !r.sampleOf(p, sampled) {
		t.Fatal("no sample")
	}
	r.miss(p, start.Add(4*time.Second))
	r.Answered(p, Probe{ID: 1, At: old}, true, start.Add(4*time.Second))
	if r.vouchable(p) {
		t.Error("vouched for, by an answer that is older than the miss")
	}
	r.Answered(p, Probe{ID: 2, At: sampled}, true, start.Add(4*time.Second))
	if !r.vouchable(p) {
		t.Error("not vouched for although it has answered since")
	}
}

// Guard: if the demand is near the limit, the sampling begins and ends repeatedly. Each end spreads the probes of the
// peers over some time; the last ones must not be delayed until their evidence has run out.
func TestSamplesThatComeAndGoPutNobodyOff(t *testing.T) {
	r := newRig(t, 40)
	r.run(5 * time.Second)
	oldest := time.Duration(0)
	r.always = func() {
		for _, p := range r.all {
			oldest = max(oldest, r.now.Sub(max(p.proven, r.samples.vouched)))
		}
	}
	for range 40 {
		r.SetDemand(netgossip.Demand{Others: 40, Share: 2}, r.now) // a small margin: each peer is probed
		r.run(700 * time.Millisecond)
		r.SetDemand(netgossip.Demand{Others: 40, Margin: 19, Share: 2}, r.now)
		r.run(50 * time.Millisecond)
	}
	if oldest > r.params.EvidenceMaxAge {
		t.Errorf("the evidence of a peer was %v old", oldest)
	}
}

// Guards: a sweep decides about the peers that it probes. After a slow answer to a probe from before the sweep, a vouch
// covers such a peer again, but the peer is not a sample before the sweep is over. A peer that the sweep did not find
// is probed afterwards, even if it is vouched for. Otherwise a sample that was open at the end, and then missed, would
// never be probed again.
func TestSlowAnswerInASweepPutsNobodyOff(t *testing.T) {
	r := newRig(t, 40)
	r.run(5 * time.Second)
	p, silent := r.all[0], true
	r.answer = func(q *Peer) time.Duration {
		if q == p && silent {
			return 0
		}
		return time.Millisecond
	}
	r.sampleOf(p, r.now)
	r.run(10 * time.Millisecond)
	before := p.sent[len(p.sent)-1]
	r.run(20 * time.Millisecond)
	r.StartSweep(r.now)
	for r.sweep.blind() {
		r.run(10 * time.Millisecond)
	}
	if r.Answered(p, before, true, r.now); !r.Sweeping(p) || !r.vouchable(p) {
		t.Fatalf("sweeping %v, vouchable %v", r.Sweeping(p), r.vouchable(p))
	}
	if r.sampleOf(p, r.now) {
		t.Error("a sample, while the sweep has it in hand")
	}
	for r.sweep.on {
		r.run(10 * time.Millisecond)
	}
	ended := r.now
	if r.run(time.Second); p.sentAt < ended {
		t.Error("the sweep did not find it, and nobody asks it")
	}
	silent = false
	r.run(r.params.EvidenceMaxAge)
	if !r.vouchable(p) || r.now.Sub(max(p.proven, r.samples.vouched)) > r.params.EvidenceMaxAge {
		t.Errorf("it answers, and is vouchable %v, asked last %v ago, due %v", r.vouchable(p), r.now.Sub(p.sentAt), p.due)
	}
}
