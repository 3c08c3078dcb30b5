package probing

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// looking is a schedule that samples, in which everybody answers at once who is not silent.
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

// A peer that does not answer a look is set aside, which is no reason for extra samples or a sweep.
func TestALookThatIsMissedSaysNothingOfTheOthers(t *testing.T) {
	s := newLooking(40)
	s.TakeMisses()
	before, _ := s.Samples()
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
	if after, missed := s.Samples(); missed > 0 || after-before > 10 {
		t.Errorf("%d samples in 1.7 s, %d missed", after-before, missed)
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

// Where each peer is probed, one that has to be asked again is late as well.
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
