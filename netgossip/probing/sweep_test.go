package probing

import (
	"slices"
	"testing"
	"time"
)

// half lets only the peers with odd numbers answer.
func half(p *Peer) time.Duration {
	if p.Index%2 == 0 {
		return 0
	}
	return time.Millisecond
}

func voided(r *rig) (n int) {
	for _, m := range r.missed {
		if m.Void {
			n++
		}
	}
	return n
}

// If hundreds of peers are silent, only a few are probed again, and the others count as lost with them: the later
// passes cost almost nothing.
func TestManySilentPeersAreJudgedByAPart(t *testing.T) {
	r := newRig(t, 1000)
	r.run(5 * time.Second)
	r.answer = half
	for r.sweeps == 0 {
		r.run(10 * time.Millisecond)
	}
	r.probes = nil
	for r.sweep.on {
		r.run(10 * time.Millisecond)
	}
	if n := voided(r); n != 500 {
		t.Errorf("%d of 500 are lost", n)
	}
	if n := len(r.probes); n > 1000+2*probePart+100 {
		t.Errorf("%d probes", n)
	}
	if took := r.now.Sub(r.sweep.began); took > r.params.EvidenceMaxAge*7/5 {
		t.Errorf("the sweep took %v", took)
	}
}

// Guard: if packets are lost, many peers are silent, too. Then the part that is probed again answers, and all silent
// peers are probed again.
func TestLostPacketsLoseNoPart(t *testing.T) {
	r := newRig(t, 1000)
	r.run(5 * time.Second)
	r.answer = func(*Peer) time.Duration {
		if r.rand.Float64() < 0.36 { // a fifth in each direction
			return 0
		}
		return time.Millisecond
	}
	for range 5 {
		r.StartSweep(r.now)
		parts := false
		for r.sweep.on {
			r.run(10 * time.Millisecond)
			parts = parts || len(r.sweep.rest) > 0
		}
		if !parts {
			t.Error("there never was a part: the test proves nothing")
		}
		if n := voided(r); n > 0 {
			t.Fatalf("%d peers count as lost", n)
		}
		r.run(10 * time.Second)
	}
}

// Guard: a peer that sends us any packet during the sweep is there, even if its answers are lost.
func TestWhoIsHeardIsNotLostWithOthers(t *testing.T) {
	r := newRig(t, 1000)
	r.run(5 * time.Second)
	r.answer = half
	r.StartSweep(r.now)
	r.run(time.Second)
	for i := 2; i <= 400; i += 2 {
		r.byIndex[i].heard = r.now
	}
	for r.sweep.on {
		r.run(10 * time.Millisecond)
	}
	lost := map[int]bool{}
	for _, m := range r.missed {
		lost[m.Peer] = lost[m.Peer] || m.Void
	}
	if n := voided(r); n != 300 {
		t.Errorf("%d are lost, want the 300 that are not heard", n)
	}
	if i := slices.IndexFunc(r.all, func(p *Peer) bool { return lost[p.Index] && p.heard > r.sweep.began }); i >= 0 {
		t.Errorf("peer %d was heard and is lost", r.all[i].Index)
	}
	for i := 2; i <= 400; i += 2 {
		if p := r.byIndex[i]; p.aside == 0 && !p.lost || r.vouchable(p) {
			t.Fatalf("peer %d is vouched for although it does not answer", i)
		}
	}
}

// After a cut each network loses half of the group, and reports each lost peer to the other network. This is not a
// reason to probe them all; that memberlist lists a peer again is a reason.
func TestLostElsewhereIsNoReasonToAsk(t *testing.T) {
	r := newRig(t, 1000)
	r.run(5 * time.Second)
	r.answer = half
	r.run(10 * time.Second)
	if r.lost != 500 {
		t.Fatalf("%d peers are lost", r.lost)
	}
	r.probes = nil
	for _, p := range r.all {
		if p.lost {
			r.Verify(p, true, r.now)
		}
	}
	r.run(3 * time.Second)
	if n := len(r.probes); n > 3*(lostRate*5/4+8) {
		t.Errorf("%d probes in 3 s", n)
	}
	p := r.byIndex[2]
	r.Verify(p, false, r.now)
	if wait := p.due.Sub(r.now); wait > r.params.RoundTime(r.lost) {
		t.Errorf("a peer that memberlist has again is asked after %v", wait)
	}
}
