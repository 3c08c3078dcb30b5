package probing

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Guard: an answer to a probe from before the miss, which a slow network may bring after it, does not undo it. The
// merger goes by the miss, and a vouch for this peer would cover nobody.
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

// Guard: where the demand is at the edge, samples begin and end again and again. Each end spreads the probes of
// each peer over a while; what was spread last must not be put off until its evidence is over.
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
		r.SetDemand(netgossip.Demand{Others: 40, Share: 2}, r.now) // a thin margin: each is probed
		r.run(700 * time.Millisecond)
		r.SetDemand(netgossip.Demand{Others: 40, Margin: 19, Share: 2}, r.now)
		r.run(50 * time.Millisecond)
	}
	if oldest > r.params.EvidenceMaxAge {
		t.Errorf("the evidence of a peer was %v old", oldest)
	}
}
