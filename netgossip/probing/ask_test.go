package probing

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// wanted runs the schedule for d and returns how often each peer was asked for its statement, and when the last one was
// asked.
func (r *rig) wanted(d time.Duration) (asked map[int]int, took time.Duration) {
	asked = map[int]int{}
	began, last := r.now, r.now
	answer := r.answer
	r.answer = func(p *Peer) time.Duration {
		if p.sampled == 0 && !r.Sweeping(p) && !p.lost {
			asked[p.Index]++
			last = r.now
		}
		return answer(p)
	}
	r.run(d)
	r.answer = answer
	return asked, last.Sub(began)
}

// Guard: each peer whose statement is wanted is asked once, at the rate of a sweep. Lost peers are not asked.
func TestEachWantedPeerIsAskedOnce(t *testing.T) {
	for _, n := range []int{40, 500, 1000} {
		r := newRig(t, n)
		r.run(time.Second)
		lost := r.all[3]
		lost.lost = true
		all := func(peer int) bool { return peer != r.all[4].Index }
		r.probes = nil
		r.Ask(all, r.now)
		if slices.Contains(r.asks.queue, lost) || len(r.asks.queue) != n-2 {
			t.Errorf("N=%d: %d are to be asked, the lost one: %v", n, len(r.asks.queue), slices.Contains(r.asks.queue, lost))
		}
		asked, took := r.wanted(3 * time.Second)
		for _, p := range r.all {
			want := 1
			if p == lost || p == r.all[4] {
				want = 0
			}
			// A sample that is open when its statement is wanted is asked again; a peer that becomes a sample later
			// cannot be distinguished.
			if got := asked[p.Index]; got > want || got < want && want == 1 && p.proven < r.now.Add(-3*time.Second) {
				t.Errorf("N=%d: peer %d was asked %d times, want %d", n, p.Index, got, want)
			}
		}
		if limit := r.params.RoundTime(n) + 100*time.Millisecond; took > limit {
			t.Errorf("N=%d: it took %v, want %v at most", n, took, limit)
		}
		if most, limit := r.busiest(), n*5/12+100; n > 100 && most > max(limit, 300) {
			t.Errorf("N=%d: %d probes in one second, want at most %d", n, most, limit)
		}
	}
}

// Guard: a later request replaces the earlier one: a node that has its proof asks no peer any more.
func TestNobodyIsAskedAnyMore(t *testing.T) {
	r := newRig(t, 1000)
	r.run(time.Second)
	r.Ask(func(int) bool { return true }, r.now)
	r.wanted(500 * time.Millisecond)
	r.Ask(func(int) bool { return false }, r.now)
	if asked, _ := r.wanted(3 * time.Second); len(asked) > 5 {
		t.Errorf("%d peers are asked, which nobody wants", len(asked))
	}
}

// Guard: if each of many peers is probed, most probes are brief, but not those to peers whose statement is wanted.
func TestWantedStatementIsAskedFor(t *testing.T) {
	r := newRig(t, 300)
	r.SetDemand(netgossip.Demand{Others: 300, Share: 2, Any: true}, r.now)
	r.run(10 * time.Second)
	for _, p := range r.all {
		p.told = r.now // by another network, so it is not this network's turn
	}
	p := r.all[7]
	r.Ask(func(peer int) bool { return peer == p.Index }, r.now)
	r.Tick(r.now)
	if !p.curious || r.brief(p, r.now) {
		t.Error("it is asked briefly")
	}
	if q := r.all[8]; q.curious || !r.brief(q, r.now) {
		t.Error("another one is asked for its statement")
	}
}

// Guard: a sweep does not lose requests. Its probes are brief; if a peer's statement is wanted during the sweep, one of
// these probes asks for it, or a probe after the answer.
func TestSweepSwallowsNoQuestion(t *testing.T) {
	for _, n := range []int{40, 500} {
		for _, before := range []time.Duration{0, 100 * time.Millisecond, 800 * time.Millisecond} {
			r := newRig(t, n)
			r.answer = func(*Peer) time.Duration { return 20 * time.Millisecond }
			r.run(time.Second)
			r.StartSweep(r.now)
			r.run(before)
			if on := r.Mode() == ModeSweep; !on && before == 0 {
				t.Fatalf("N=%d: no sweep", n)
			}
			clear(r.full)
			r.Ask(func(int) bool { return true }, r.now)
			r.run(4 * time.Second)
			missing := 0
			for _, p := range r.all {
				if r.full[p.Index] == 0 {
					missing++
				}
			}
			if missing > 0 {
				t.Errorf("N=%d, %v after the sweep began: %d were not asked for their statement", n, before, missing)
			}
		}
	}
}
