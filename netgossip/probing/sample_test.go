package probing

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// rig is a schedule whose peers answer as the test defines.
type rig struct {
	*Schedule
	t        *testing.T
	now      boottime.Instant
	ids      uint64
	replies  []rigReply
	unlisted map[int]bool // dead to memberlist

	probes  []boottime.Instant
	missed  []Miss
	sweeps  int
	answer  func(p *Peer) time.Duration // 0: never
	contact func(p *Peer) bool
	always  func()      // after each step
	full    map[int]int // probes that ask for the statement
}

type rigReply struct {
	p  *Peer
	id uint64
	at boottime.Instant
}

// newRig returns a schedule of n peers that have all answered until now. Half of them and one more may be lost before
// the quorum is lost.
func newRig(t *testing.T, n int) *rig {
	s, _ := testSchedule(n)
	r := &rig{Schedule: s, t: t, now: start, unlisted: map[int]bool{}, always: func() {}, full: map[int]int{}}
	r.answer = func(*Peer) time.Duration { return time.Millisecond }
	r.contact = func(*Peer) bool { return true }
	s.listed = func(peer int) bool { return !r.unlisted[peer] }
	s.heard = func() boottime.Instant { return r.now }
	for _, p := range s.all {
		s.believe(p, &netgossip.Statement{}, 1, start)
	}
	s.ripe = start
	s.SetDemand(netgossip.Demand{Others: n, Margin: n/2 - 1, Share: 2}, start)
	return r
}

// run advances the clock.
func (r *rig) run(d time.Duration) {
	for until := r.now.Add(d); r.now < until; {
		first := -1
		for i, x := range r.replies {
			if x.at <= r.now && (first < 0 || x.at < r.replies[first].at) {
				first = i
			}
		}
		if first >= 0 {
			x := r.replies[first]
			r.replies = slices.Delete(r.replies, first, first+1)
			if o, ok := r.Replied(x.p, x.id, r.now); ok {
				r.Answered(x.p, o, r.contact(x.p), r.now)
			}
			r.collect()
			continue
		}
		r.Tick(r.now)
		p, brief, wait := r.Next(r.now)
		r.collect()
		if p == nil {
			next := r.now.Add(max(wait, 1))
			for _, x := range r.replies {
				next = min(next, x.at)
			}
			r.now = min(next, until)
			continue
		}
		if !brief {
			r.full[p.Index]++
		}
		r.ids++
		r.probes = append(r.probes, r.now)
		r.Probed(p, r.ids, r.now)
		if rtt := r.answer(p); rtt > 0 {
			r.replies = append(r.replies, rigReply{p, r.ids, r.now.Add(rtt)})
		}
	}
}

func (r *rig) collect() {
	r.missed = append(r.missed, r.TakeMisses()...)
	if r.TakeDoubt() {
		r.sweeps++
	}
	r.always()
}

// busiest returns the maximum number of probes within one second.
func (r *rig) busiest() (most int) {
	from := 0
	for i, at := range r.probes {
		for at.Sub(r.probes[from]) >= time.Second {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// Guard: the vouch never passes an unanswered sample, and is never later than the latest sample.
func TestVouchWaitsForEverySample(t *testing.T) {
	r := newRig(t, 200)
	slow := false
	r.answer = func(*Peer) time.Duration {
		if slow = !slow; slow {
			return 120 * time.Millisecond
		}
		return time.Millisecond
	}
	last := r.samples.vouched
	r.always = func() {
		v := r.samples.vouched
		if v < last {
			t.Fatal("the vouch went back")
		}
		if v != last && v > r.samples.last {
			t.Fatal("the vouch is younger than every sample")
		}
		for _, p := range r.samples.open {
			if v != last && p.sampled <= v {
				t.Fatalf("vouched up to %v although a sample of %v is open", v, p.sampled)
			}
		}
		last = v
	}
	r.run(30 * time.Second)
	if age := r.now.Sub(last); age > time.Second {
		t.Errorf("the vouch is %v old although everybody answers", age)
	}
	if r.sweeps > 0 || len(r.missed) > 0 {
		t.Errorf("%d sweeps, %d misses", r.sweeps, len(r.missed))
	}
}

// Guard: a new instance probes every peer before it vouches, since the merger may remember answers to an earlier
// instance.
func TestNoSampleBeforeEverybodyWasAsked(t *testing.T) {
	for _, n := range []int{30, 1000} {
		r := newRig(t, n)
		r.Schedule, _ = testSchedule(n)
		r.Schedule.heard = func() boottime.Instant { return r.now }
		r.SetDemand(netgossip.Demand{Others: n, Margin: n/2 - 1, Share: 2}, start)
		r.answer = func(p *Peer) time.Duration {
			if p.Index%10 == 0 {
				return 0
			}
			return time.Millisecond
		}
		for !r.samples.on && r.now.Sub(start) < time.Minute {
			r.run(10 * time.Millisecond)
			if r.samples.vouched > 0 {
				t.Fatal("vouched without samples")
			}
		}
		if !r.samples.on {
			t.Fatal("no samples are ever taken")
		}
		for _, p := range r.all {
			if p.proven == 0 && !p.lost {
				t.Fatalf("N=%d: samples are taken after %v, and peer %d neither answered nor is lost", n, r.now.Sub(start), p.Index)
			}
		}
	}
}

// A vouch needs as many samples per EvidenceMaxAge as the bound requires, of different peers.
func TestSamplesAreManyAndDifferent(t *testing.T) {
	r := newRig(t, 1000)
	asked := map[*Peer]int{}
	r.answer = func(p *Peer) time.Duration { asked[p]++; return time.Millisecond }
	r.run(time.Minute)
	if n := r.samples.total; n < 60*15/4*14/15 || n > 60*15/4*16/15 {
		t.Errorf("%d samples in a minute", n)
	}
	for p, n := range asked {
		if n > 1 {
			t.Fatalf("peer %d was a sample %d times before the others", p.Index, n)
		}
	}
	if most := r.busiest(); most > 8 {
		t.Errorf("%d probes in one second", most)
	}
}

// Guard: one dead node of 1000, or three at different times, is not a reason to probe all peers; memberlist finds the
// deaths within a few seconds.
func TestSingleDeathsMakeNoSweep(t *testing.T) {
	for _, known := range []bool{true, false} {
		r := newRig(t, 60)
		dead := map[int]bool{}
		r.answer = func(p *Peer) time.Duration {
			if dead[p.Index] {
				return 0
			}
			return time.Millisecond
		}
		for i := range 3 {
			dead[i+1] = true
			r.run(10 * time.Second)
			r.unlisted[i+1] = known
			r.run(20 * time.Second)
		}
		if r.sweeps > 0 {
			t.Errorf("memberlist knows %v: %d sweeps", known, r.sweeps)
		}
		if len(r.missed) == 0 {
			t.Error("nobody was missed: the test proves nothing")
		}
	}
}

// When half of the peers are gone, all of them are found and reported together, the others are still vouched for, and
// the rate of the probes is bounded.
func TestSweepFindsWhoIsGone(t *testing.T) {
	for _, n := range []int{20, 100, 1000} {
		r := newRig(t, n)
		r.run(5 * time.Second)
		cut := r.now
		r.answer = func(p *Peer) time.Duration {
			if p.Index%2 == 0 {
				return 0
			}
			return time.Millisecond
		}
		void := map[int]bool{}
		for len(void) < n/2 && r.now.Sub(cut) < 12*time.Second {
			r.run(10 * time.Millisecond)
			for _, m := range r.missed {
				if m.Void {
					void[m.Peer] = true
				}
				if m.Peer%2 != 0 {
					t.Fatalf("N=%d: peer %d, which is there, is missed", n, m.Peer)
				}
			}
		}
		took := r.now.Sub(cut)
		bound := 5 * time.Second
		if n > 100 {
			bound = 9 * time.Second
		}
		if len(void) < n/2 || took > bound {
			t.Errorf("N=%d: %d of %d found after %v", n, len(void), n/2, took)
		}
		for _, p := range r.all {
			if p.Index%2 != 0 && p.proven < cut && n > 20 {
				t.Fatalf("N=%d: peer %d was not asked in the sweep", n, p.Index)
			}
		}
		if r.sweeps != 1 {
			t.Errorf("N=%d: %d sweeps", n, r.sweeps)
		}
		if most, limit := r.busiest(), max(260, n*5/11); most > limit {
			t.Errorf("N=%d: %d probes in one second, want at most %d", n, most, limit)
		}
		r.probes = nil
		r.run(20 * time.Second)
		if age := r.now.Sub(r.samples.vouched); age > 2*time.Second {
			t.Errorf("N=%d: the vouch for those who are there is %v old", n, age)
		}
		if most := r.busiest(); most > 60 {
			t.Errorf("N=%d: %d probes in one second long after it", n, most)
		}
	}
}

// Guard: the vouch stops at the first unexplained silence of several peers. So a node that lost a majority does not
// vouch for it because the other peers answer.
func TestVouchStopsWhenManyAreGone(t *testing.T) {
	r := newRig(t, 1000)
	r.run(5 * time.Second)
	cut := r.now
	r.answer = func(*Peer) time.Duration { return 0 }
	r.run(20 * time.Second)
	if late := r.samples.vouched.Sub(cut); late > time.Second {
		t.Errorf("vouched up to %v after everybody was gone", late)
	}
}

// An answer that says "I do not see you" is a missed sample.
func TestUnseenIsMissed(t *testing.T) {
	r := newRig(t, 100)
	r.run(5 * time.Second)
	cut := r.now
	r.contact = func(*Peer) bool { return false }
	r.run(10 * time.Second)
	if r.sweeps == 0 || r.samples.vouched.Sub(cut) > time.Second {
		t.Errorf("%d sweeps, vouched up to %v after nobody saw us", r.sweeps, r.samples.vouched.Sub(cut))
	}
}

// Guard: every event after which a peer is no longer vouched for here is reported: otherwise the merger would go on
// vouching for it.
func TestEveryLostPeerIsReported(t *testing.T) {
	r := newRig(t, 40)
	r.run(5 * time.Second)
	r.SetDemand(netgossip.Demand{Others: 40, Share: 2}, r.now) // a thin margin: each is probed
	r.answer = func(p *Peer) time.Duration {
		if p.Index == 7 {
			return 0
		}
		return time.Millisecond
	}
	r.run(20 * time.Second)
	if !slices.ContainsFunc(r.missed, func(m Miss) bool { return m.Peer == 7 }) || len(r.missed) != 1 {
		t.Errorf("missed %+v", r.missed)
	}
	if p := r.byIndex[7]; !p.lost || r.vouchable(p) {
		t.Error("it still counts as there")
	}
}

// All lost peers together are probed at a bounded rate, and the end of a partition is noticed soon.
func TestLostPeersCostLittleAndComeBackSoon(t *testing.T) {
	r := newRig(t, 1000)
	gone := true
	r.answer = func(p *Peer) time.Duration {
		if gone && p.Index > 500 {
			return 0
		}
		return time.Millisecond
	}
	r.run(40 * time.Second)
	if r.lost != 500 {
		t.Fatalf("%d peers are lost", r.lost)
	}
	r.probes = nil
	r.run(10 * time.Second)
	if n := len(r.probes); n > 10*(lostRate*5/4+8) {
		t.Errorf("%d probes in 10 s, half of the peers being lost", n)
	}
	gone = false
	healed := r.now
	for r.lost > 0 && r.now.Sub(healed) < time.Minute {
		r.run(100 * time.Millisecond)
	}
	if took := r.now.Sub(healed); took > 8*time.Second {
		t.Errorf("after %v there are still %d lost", took, r.lost)
	}
}

// If packets are lost continuously, samples are missed at random; sweeps must be rare.
func TestLossRarelyMakesASweep(t *testing.T) {
	r := newRig(t, 300)
	r.answer = func(*Peer) time.Duration {
		if r.rand.Float64() < 0.36 { // a fifth in each direction
			return 0
		}
		return time.Millisecond
	}
	r.run(10 * time.Minute)
	t.Logf("%d samples, %d misses, %d sweeps in 10 minutes", r.samples.total, len(r.missed), r.sweeps)
	if r.sweeps > 10 {
		t.Errorf("%d sweeps in 10 minutes", r.sweeps)
	}
}

// Guard: for a node that stalls for two seconds, all peers seem silent. It loses no peer, since the answers are there
// when it goes on; and its probes are bounded.
func TestStandingStillLosesNobody(t *testing.T) {
	for _, n := range []int{20, 50, 1000} {
		r := newRig(t, n)
		const blocked, open = 2 * time.Second, 250 * time.Millisecond
		r.answer = func(*Peer) time.Duration {
			if in := r.now.Sub(start) % (blocked + open); in < blocked {
				return blocked - in + time.Millisecond
			}
			return time.Millisecond
		}
		r.run(30 * time.Second)
		if r.sweeps == 0 {
			t.Errorf("N=%d: no sweep: the test proves nothing", n)
		}
		if slices.ContainsFunc(r.missed, func(m Miss) bool { return m.Void }) {
			t.Errorf("N=%d: peers count for nothing because of a stall of %v", n, blocked)
		}
		if most, limit := r.busiest(), max(260, n*3/4); most > limit {
			t.Errorf("N=%d: %d probes in one second, want at most %d", n, most, limit)
		}
	}
}

// Guard: if a node must probe each peer, a peer that answered in a sweep is probed again in time, however long the
// sweep goes on with the silent ones.
func TestSweepDoesNotKeepWhoAnswered(t *testing.T) {
	const n = 1000
	r := newRig(t, n)
	r.run(5 * time.Second)
	cut := r.now
	r.answer = func(p *Peer) time.Duration {
		if p.Index%2 == 0 {
			return 0
		}
		return time.Millisecond
	}
	for r.sweeps == 0 {
		r.run(10 * time.Millisecond)
	}
	asked := r.now
	r.run(r.params.EvidenceMaxAge)
	r.SetDemand(netgossip.Demand{Others: n / 2, Share: 2}, r.now) // a tie
	for r.now.Sub(cut) < 15*time.Second {
		r.run(50 * time.Millisecond)
		for _, p := range r.all {
			if age := r.now.Sub(p.proven); p.Index%2 != 0 && age > r.params.EvidenceMaxAge && r.now.Sub(asked) > 2*r.params.EvidenceMaxAge {
				t.Fatalf("%v after the cut the evidence of peer %d, which answers, is %v old", r.now.Sub(cut), p.Index, age)
			}
		}
	}
}

// Guard: a peer that memberlist declared dead and alive again at the same instant is not vouched for, here or by the
// merger, so it is probed.
func TestRevivedPeerIsAsked(t *testing.T) {
	r := newRig(t, 200)
	r.run(5 * time.Second)
	p := r.byIndex[17]
	p.dead = r.now
	r.now++
	r.Verify(p, false, r.now)
	r.Verify(p, false, r.now)
	if r.vouchable(p) {
		t.Error("it is vouched for by an answer from before its death")
	}
	r.run(300 * time.Millisecond)
	if !r.vouchable(p) || p.proven < p.dead {
		t.Error("it was not asked")
	}
}

// Guard: unanswered samples delay the vouch, even if later ones are answered.
func TestOpenSampleHoldsTheVouchBack(t *testing.T) {
	r := newRig(t, 200)
	for i, p := range r.all[:3] {
		if !r.sampleOf(p, start.Add(time.Duration(1+i)*time.Second)) {
			t.Fatal("no sample")
		}
	}
	answer := func(i int, want boottime.Instant) {
		t.Helper()
		p := r.all[i]
		p.proven = p.sampled
		if r.closeSample(p, start.Add(5*time.Second)); r.samples.vouched != want {
			t.Errorf("sample %d is answered: vouched up to %v, want %v", i, r.samples.vouched.Sub(start), want.Sub(start))
		}
	}
	answer(2, 0) // the first sample is open
	answer(0, start.Add(time.Second))
	answer(1, start.Add(3*time.Second))
}

// Guard: a node stalls while a sample is open. When it goes on, it begins other samples and then sets that one aside.
// The vouch must be dated by a sample from before the stall: the moment before the new samples began is not evidence of
// any peer.
func TestAStallIsNotVouchedFor(t *testing.T) {
	for _, stall := range []time.Duration{5 * time.Second, 80 * time.Second} {
		r := newRig(t, 200)
		r.run(2 * time.Second)
		r.answer = func(*Peer) time.Duration { return 0 }
		for len(r.samples.open) == 0 {
			r.run(10 * time.Millisecond)
		}
		last := r.samples.last
		r.now = r.now.Add(stall)
		r.run(time.Millisecond)
		if v := r.samples.vouched; v > last {
			t.Errorf("after %v vouched up to %v after the latest sample before", stall, v.Sub(last))
		}
	}
}
