package probing

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// looking returns a schedule with samples in which all peers that are not silent answer at once.
type looking struct {
	*Schedule
	now    boottime.Instant
	silent map[int]bool
	probes map[int]int
	id     uint64
}

func newLooking(peers int) *looking {
	s := &looking{now: boottime.Instant(time.Hour), silent: map[int]bool{}, probes: map[int]int{}}
	c := Config{Params: netgossip.Tune(peers + 1), Late: true, Rand: rand.New(rand.NewPCG(1, 1))}
	for i := range peers {
		c.Peers = append(c.Peers, i)
	}
	s.Schedule = New(c, s.now)
	s.SetDemand(netgossip.Demand{Others: peers, Margin: peers / 2, Share: 2, Any: true}, s.now)
	s.pass(10 * time.Second)
	return s
}

func (s *looking) pass(d time.Duration) {
	for end := s.now.Add(d); s.now < end; s.now = s.now.Add(time.Millisecond) {
		s.Tick(s.now)
		for p, _, _ := s.Next(s.now); p != nil; p, _, _ = s.Next(s.now) {
			s.id++
			s.Probed(p, s.id, s.now)
			s.probes[p.Index]++
			if o, ok := s.Replied(p, s.id, s.now); ok && !s.silent[p.Index] {
				s.Answered(p, o, true, s.now)
			} else if ok {
				p.sent = append(p.sent, o)
			}
		}
	}
}

func TestALookHoldsTheVouchBack(t *testing.T) {
	s := newLooking(40)
	if s.Mode() != ModeSampled || s.now.Sub(s.Vouched()) > time.Second {
		t.Fatalf("mode %v, vouched %v ago", s.Mode(), s.now.Sub(s.Vouched()))
	}
	began := s.now
	s.silent[7] = true
	s.Look(s.Peer(7), s.now)
	s.pass(1500 * time.Millisecond)
	if s.Vouched() >= began {
		t.Error("the vouch moves on while a peer owes the answer to a look")
	}
	taken, missed := s.Samples()
	s.silent[7] = false
	s.Look(s.Peer(7), s.now)
	s.pass(time.Second)
	if s.now.Sub(s.Vouched()) > time.Second {
		t.Errorf("after its answer the vouch is %v old", s.now.Sub(s.Vouched()))
	}
	if again, m := s.Samples(); m != missed || again < taken || missed != 0 {
		t.Errorf("%d samples missed", m)
	}
}

// A peer that does not answer a look is set aside, which is not a reason for extra samples or a sweep.
func TestALookThatIsMissedSaysNothingOfTheOthers(t *testing.T) {
	s := newLooking(40)
	s.TakeMisses()
	before, _ := s.Samples()
	s.samples.due = s.now.Add(time.Hour) // no sample is taken in this time
	for _, p := range []int{3, 4, 5, 6} {
		s.silent[p] = true
		s.Look(s.Peer(p), s.now)
	}
	s.pass(1700 * time.Millisecond)
	aside := map[int]bool{}
	for _, m := range s.TakeMisses() {
		aside[m.Peer] = true
	}
	if !aside[3] || !aside[4] || !aside[5] || !aside[6] {
		t.Errorf("set aside: %v", aside)
	}
	if s.TakeDoubt() {
		t.Error("looks began a sweep")
	}
	if after, missed := s.Samples(); missed > 0 || after > before {
		t.Errorf("%d samples because of looks, %d missed", after-before, missed)
	}
	if _, late := s.Closed(); late > 0 {
		t.Errorf("%d looks count as loss", late)
	}
}

func TestLateSamplesAreTold(t *testing.T) {
	s := newLooking(40)
	s.TakeLate()
	s.silent[7] = true
	s.sampleOf(s.Peer(7), s.now)
	began := s.now
	s.pass(200 * time.Millisecond)
	late := s.TakeLate()
	if len(late) != 1 || late[0].Peer != 7 || late[0].Since != began || late[0].Swept {
		t.Errorf("late: %+v", late)
	}
}

// If each peer is probed, a peer that has to be probed again is also late.
func TestLatePeersAreToldWhereEachIsProbed(t *testing.T) {
	s := newLooking(40)
	s.SetDemand(netgossip.Demand{Others: 40, Margin: 0, Share: 2, Any: true}, s.now)
	s.pass(5 * time.Second)
	closed, _ := s.Closed()
	s.TakeLate()
	s.silent[7] = true
	s.pass(3 * time.Second)
	late := s.TakeLate()
	if s.Mode() != ModeDirect || len(late) != 1 || late[0].Peer != 7 {
		t.Errorf("mode %v, late: %+v", s.Mode(), late)
	}
	if now, lates := s.Closed(); now == closed || lates > 0 {
		t.Errorf("%d answers, %d late", now-closed, lates)
	}
}

// answerLate answers an earlier probe, given by its id, now.
func (s *looking) answerLate(p *Peer, id uint64) {
	if o, ok := s.Replied(p, id, s.now); ok {
		s.Answered(p, o, true, s.now)
	}
}

// A sweep that begins while a look is unanswered leaves the other peers as much time as one that begins during a
// sample.
func TestALookDoesNotAgeTheVouchForASweep(t *testing.T) {
	for ms := 0; ms <= 1600; ms += 200 {
		s := newLooking(999)
		most := s.params.EvidenceMaxAge
		reported := s.Vouched()
		s.silent[7] = true
		s.Look(s.Peer(7), s.now)
		start := s.now.Add(time.Duration(ms) * time.Millisecond)
		for end, begun := start.Add(3*time.Second), false; s.now < end; {
			s.pass(10 * time.Millisecond)
			if s.Vouched().Sub(reported) >= most/16 {
				reported = s.Vouched()
			}
			if !begun && s.now >= start {
				begun = true
				s.StartSweep(s.now)
			}
			for i := range 999 {
				if age := s.now.Sub(max(reported, s.Peer(i).proven)); i != 7 && age >= most {
					t.Fatalf("a sweep %d ms after a look: the evidence of a peer that answers is %v old", ms, age)
				}
			}
		}
	}
}

func TestAnAnsweredLookIsNoSample(t *testing.T) {
	s := newLooking(40)
	before, _ := s.Closed()
	taken, _ := s.Samples()
	for p := range 20 {
		s.Look(s.Peer(p), s.now)
	}
	s.pass(60 * time.Millisecond)
	after, _ := s.Closed()
	if now, _ := s.Samples(); after-before > now-taken {
		t.Errorf("%d samples closed, %d taken", after-before, now-taken)
	}
}

// A slow answer to a probe from before a look must not turn the look into a sample for which no probe is sent.
func TestASlowAnswerBeforeALook(t *testing.T) {
	s := newLooking(40)
	p := s.Peer(7)
	_, before := s.Samples()
	s.TakeMisses()
	s.sampleOf(p, s.now)
	s.Probed(p, 9001, s.now)
	s.now = s.now.Add(150 * time.Millisecond)
	s.Tick(s.now)
	s.Probed(p, 9002, s.now)
	s.now = s.now.Add(2 * time.Millisecond)
	s.answerLate(p, 9001)
	s.Look(p, s.now)
	s.now = s.now.Add(10 * time.Millisecond)
	s.answerLate(p, 9002)
	s.pass(2 * time.Second)
	if _, missed := s.Samples(); missed > before || len(s.TakeMisses()) > 0 {
		t.Error("a peer that answers all it is asked is missed")
	}
}

// A sample that follows a look whose first probe was lost is like any other sample.
func TestASampleAfterALookIsASample(t *testing.T) {
	s := newLooking(40)
	p := s.Peer(7)
	s.Look(p, s.now)
	s.Probed(p, 9001, s.now) // and lost
	for s.pass(time.Millisecond); p.sampled != 0; s.pass(time.Millisecond) {
	}
	s.TakeLate()
	_, before := s.Samples()
	if s.silent[7] = true; p.sampled != 0 || !s.sampleOf(p, s.now) {
		t.Fatal("no sample")
	}
	s.pass(700 * time.Millisecond)
	if _, missed := s.Samples(); missed == before || len(s.TakeLate()) == 0 {
		t.Error("it is not missed after 0.7 s")
	}
}

// A change of memberlist's state of a peer does not cancel the probe of a look.
func TestVerifyLeavesALookItsProbe(t *testing.T) {
	s := newLooking(40)
	s.TakeMisses()
	s.Look(s.Peer(7), s.now)
	s.Verify(s.Peer(7), false, s.now)
	s.pass(3 * time.Second)
	if m := s.TakeMisses(); len(m) > 0 {
		t.Errorf("missed: %+v", m)
	}
}

// Half of the group is gone. Looks at all of these peers do not delay the sweep.
func TestLooksDoNotHideACut(t *testing.T) {
	var begun [2]time.Duration
	const seeds = 60
	for seed := range seeds {
		for look := range begun {
			s := newLooking(36)
			s.pass(time.Duration(seed) * 31 * time.Millisecond)
			s.TakeDoubt()
			began := s.now
			for p := range 18 {
				s.silent[p] = true
				if look == 1 {
					s.Look(s.Peer(p), s.now)
				}
			}
			for !s.TakeDoubt() && s.now.Sub(began) < 3*time.Second {
				s.pass(10 * time.Millisecond)
			}
			begun[look] += s.now.Sub(began) / seeds
		}
	}
	if begun[1] > begun[0]*5/4 {
		t.Errorf("a sweep after %v without looks, and after %v with them", begun[0], begun[1])
	}
	t.Log(begun)
}

// If a peer becomes a sample while the vouch waits for it because of a look, it has to answer a later probe, but does
// not delay the vouch for longer than a look alone.
func TestASampleOfAPeerThatIsLookedAt(t *testing.T) {
	s := newLooking(40)
	p := s.Peer(7)
	s.samples.due = s.now.Add(time.Hour)
	for p.sampled != 0 {
		s.pass(time.Millisecond)
	}
	began := s.now
	s.Look(p, s.now)
	s.Probed(p, 9001, s.now)
	s.now = s.now.Add(time.Millisecond)
	if !s.sampleOf(p, s.now) {
		t.Fatal("a look keeps a peer out of the samples")
	}
	s.Probed(p, 9002, s.now)
	if s.answerLate(p, 9001); p.sampled != began || s.Vouched() >= began {
		t.Error("the answer to a look is one to the sample that began after it")
	}
	if s.answerLate(p, 9002); p.sampled != 0 {
		t.Error("an answer does not end it")
	}
	s.silent[7] = true
	s.Look(p, s.now)
	s.pass(1500 * time.Millisecond)
	s.sampleOf(p, s.now)
	s.TakeMisses()
	s.pass(150 * time.Millisecond)
	if m := s.TakeMisses(); len(m) != 1 || m[0].Peer != 7 {
		t.Errorf("1.65 s after a look: missed %v", m)
	}
}

// If a look is answered during the first pass of a sweep, this does not vouch for the samples that the sweep has ended.
func TestALookDuringASweepVouchesForNobody(t *testing.T) {
	s := newLooking(40)
	for _, p := range []int{3, 4, 5} {
		s.silent[p] = true
		s.sampleOf(s.Peer(p), s.now)
	}
	began := s.now
	s.pass(10 * time.Millisecond)
	s.sampleOf(s.Peer(7), s.now) // and answers
	s.pass(10 * time.Millisecond)
	s.StartSweep(s.now)
	if s.Sweeping(s.Peer(7)) {
		t.Fatal("the sweep asks a peer that has just answered")
	}
	s.Look(s.Peer(7), s.now)
	s.pass(100 * time.Millisecond)
	if !s.sweep.blind() || s.Peer(7).sampled != 0 {
		t.Fatal("the look is not answered in the first pass")
	}
	if s.Vouched() >= began {
		t.Error("three silent peers are vouched for")
	}
}

// A sweep sets aside peers for which the vouch waits because of an old look. If such a peer is a sample by now, it
// still delays the vouch.
func TestASweepKeepsTheSamplesAmongTheLooks(t *testing.T) {
	s := newLooking(999)
	s.samples.due = s.now.Add(time.Hour)
	s.pass(time.Second)
	s.silent[7], s.silent[8] = true, true
	began := s.now
	s.Look(s.Peer(7), s.now)
	s.Look(s.Peer(8), s.now)
	s.pass(500 * time.Millisecond)
	s.sampleOf(s.Peer(10), s.now) // and answers
	s.pass(500 * time.Millisecond)
	drawn := s.now
	s.sampleOf(s.Peer(7), s.now)
	s.pass(100 * time.Millisecond)
	s.sampleOf(s.Peer(9), s.now) // and answers
	s.pass(100 * time.Millisecond)
	s.TakeMisses()
	s.StartSweep(s.now)
	for _, m := range s.TakeMisses() {
		if m.Since != began {
			t.Errorf("%d is missed since %v after the look", m.Peer, m.Since.Sub(began))
		}
	}
	if s.Peer(7).aside != began || s.Peer(8).aside != began {
		t.Error("they are not set aside")
	}
	if v := s.Vouched(); v < began || v >= drawn {
		t.Errorf("vouched up to %v after the looks, and the sample began %v after them", v.Sub(began), drawn.Sub(began))
	}
}

// If the first pass is short, a sweep sets no peer aside before it.
func TestASweepOfFewSetsNobodyAsideAtOnce(t *testing.T) {
	s := newLooking(40)
	s.silent[7] = true
	s.Look(s.Peer(7), s.now)
	s.pass(1500 * time.Millisecond)
	s.TakeMisses()
	if s.StartSweep(s.now); len(s.TakeMisses()) > 0 {
		t.Error("somebody is set aside when the sweep begins")
	}
}
