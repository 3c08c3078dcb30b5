package probing

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Guard: a node that joins hears of all members at once, and probes them one after the other.
func TestJoiningIsPaced(t *testing.T) {
	for _, n := range []int{50, 1000} {
		r := newRig(t, n)
		r.Schedule, _ = testSchedule(n)
		r.Schedule.heard = func() boottime.Instant { return r.now }
		r.run(100 * time.Millisecond)
		for _, p := range r.all {
			r.Verify(p, false, r.now)
		}
		r.run(20 * time.Second)
		if most, limit := r.busiest(), max(fewPeers+50, n*2/3); most > limit {
			t.Errorf("N=%d: %d probes in one second, want at most %d", n, most, limit)
		}
		if slices.ContainsFunc(r.all, func(p *Peer) bool { return p.proven == 0 }) {
			t.Errorf("N=%d: not everybody was asked", n)
		}
	}
}

// When all peers have answered, samples may be taken at once.
func TestSamplesBeginWhenEverybodyIsKnown(t *testing.T) {
	r := newRig(t, 1000)
	r.Schedule, _ = testSchedule(1000)
	r.Schedule.heard = func() boottime.Instant { return r.now }
	r.SetDemand(netgossip.Demand{Others: 1000, Margin: 499, Share: 2}, start)
	for !r.samples.on && r.now.Sub(start) < time.Minute {
		r.run(10 * time.Millisecond)
	}
	if took := r.now.Sub(start); took > 3500*time.Millisecond {
		t.Errorf("samples are taken after %v", took)
	}
}

// Guard: a node whose view changes all the time, as while a group starts, notifies its peers at a bounded rate, and the
// last news reaches all of them.
func TestNudgesAreBounded(t *testing.T) {
	for _, n := range []int{50, 100, 1000} {
		r := newRig(t, n)
		r.SetDemand(netgossip.Demand{}, r.now) // each is probed
		r.answer = func(p *Peer) time.Duration {
			p.Holds = r.said
			return time.Millisecond
		}
		r.run(5 * time.Second)
		r.probes = nil
		for range 300 {
			r.said++
			r.NudgeSome(r.now)
			r.run(10 * time.Millisecond)
		}
		r.run(5 * time.Second)
		for _, p := range r.all {
			if p.Holds != r.said {
				t.Fatalf("N=%d: peer %d has not heard the last", n, p.Index)
			}
		}
		if most, limit := r.busiest(), max(500, n); most > limit {
			t.Errorf("N=%d: %d probes in one second, want at most %d", n, most, limit)
		}
	}
}

// Guard: if each of many peers is probed, as in the halves of a cut, and the view changes with every lost peer, no peer
// asks more often than otherwise, but all get the last statement. An announcement reaches all peers.
func TestManyPeersAreNotNudged(t *testing.T) {
	const n = 300
	r := newRig(t, n)
	r.SetDemand(netgossip.Demand{}, r.now)
	r.answer = func(p *Peer) time.Duration {
		p.Holds = r.said
		return time.Millisecond
	}
	r.run(5 * time.Second)
	r.probes = nil
	for range 300 {
		r.said++
		r.NudgeSome(r.now)
		r.run(10 * time.Millisecond)
	}
	r.run(r.pace.Interval + time.Second)
	for _, p := range r.all {
		if p.Holds != r.said || r.Tells(p) {
			t.Fatalf("peer %d holds %d of %d, is told %v", p.Index, p.Holds, r.said, r.Tells(p))
		}
	}
	if most, limit := r.busiest(), 150; most > limit {
		t.Errorf("%d probes in one second, want at most %d", most, limit)
	}
	r.said++
	r.NudgeAll(r.now)
	r.run(netgossip.Tune(n+1).RoundTime(n) + 100*time.Millisecond)
	for _, p := range r.all {
		if p.Holds != r.said {
			t.Fatalf("peer %d was not told of an announcement", p.Index)
		}
	}
}

// Guard: if each of many peers is probed, the networks take turns in asking for statements. A peer that has news is
// asked at once; if consent is needed, each peer is asked; and a single network asks every second time.
func TestNetworksTakeTurnsToAskForStatements(t *testing.T) {
	a, b, single := newRig(t, 300), newRig(t, 300), newRig(t, 300)
	a.network, b.network, single.network = 0, 1, 1
	for _, r := range []*rig{a, b} {
		r.SetDemand(netgossip.Demand{Others: 300, Share: 2}, r.now)
	}
	single.SetDemand(netgossip.Demand{Others: 300, Share: 1}, single.now)
	for i := range 300 {
		p, q := a.byIndex[i+1], b.byIndex[i+1]
		if a.brief(p, a.now) == b.brief(q, b.now) || single.brief(single.byIndex[i+1], single.now) {
			t.Fatalf("peer %d: brief %v and %v, alone %v", i, a.brief(p, a.now), b.brief(q, b.now), single.brief(single.byIndex[i+1], single.now))
		}
		if was := a.brief(p, a.now); true {
			p.turn++
			if a.brief(p, a.now) == was {
				t.Fatalf("peer %d is never asked on one of the networks", i)
			}
		}
		for _, why := range []func(*Peer){
			func(p *Peer) { p.nudged = true }, func(p *Peer) { p.curious = true }, func(p *Peer) { p.aside = 1 },
		} {
			was := *p
			why(p)
			q := *p
			q.turn++
			if a.brief(p, a.now) || a.brief(&q, a.now) {
				t.Fatalf("peer %d is not asked for its statement", i)
			}
			*p = was
		}
	}
	a.SetDemand(netgossip.Demand{Others: 300, Share: 2, Each: true}, a.now)
	for _, p := range a.all {
		if a.brief(p, a.now) {
			t.Fatal("a consent is not asked for")
		}
	}
}

// Samples cost a sixth less than probing each of nine peers. That is not enough for a change of the pace. But while the
// group was being met, or each peer had to be probed, there was no choice, so samples may begin.
func TestStartChoosesNoPace(t *testing.T) {
	d := netgossip.Demand{Others: 9, Margin: 4, Share: 2}
	r := newRig(t, 9)
	fresh := func() {
		r.Schedule, _ = testSchedule(9)
		r.heard = func() boottime.Instant { return r.now }
		r.listed = func(peer int) bool { return !r.unlisted[peer] }
	}
	fresh()
	began := r.now
	r.contact = func(p *Peer) bool { return p.Index < 3 || r.now.Sub(began) > 2*time.Second } // some see us later
	r.SetDemand(d, r.now)
	r.run(2 * time.Second)
	if r.sampling() {
		t.Fatal("samples are taken before everybody has answered")
	}
	r.run(10 * time.Second)
	if !r.sampling() {
		t.Error("each peer is asked since some were met late")
	}

	each := d
	each.Each = true
	r.SetDemand(each, r.now)
	r.run(time.Second)
	r.SetDemand(d, r.now)
	if r.run(time.Second); !r.sampling() {
		t.Error("each peer is asked since that was demanded once")
	}

	r.unlisted[1], r.unlisted[2] = true, true
	if r.run(time.Second); r.sampling() {
		t.Error("samples of seven peers are taken")
	}
	clear(r.unlisted)
	if r.run(time.Second); r.sampling() {
		t.Error("a change that does not pay was made")
	}

	r.Renew(r.now) // all peers are met again
	if r.run(10 * time.Second); !r.sampling() {
		t.Error("each peer is asked since all were met again")
	}
}
