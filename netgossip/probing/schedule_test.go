package probing

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

const start = boottime.Instant(time.Hour)

func testSchedule(n int) (*Schedule, netgossip.Params) {
	p := netgossip.Tune(n + 1)
	peers := make([]int, n)
	for i := range peers {
		peers[i] = i + 1
	}
	return New(Config{Params: p, Peers: peers, Rand: rand.New(rand.NewPCG(1, 2))}, start), p
}

// play sends the due probes until the end; answer returns how long a probe takes, 0 for ever. It returns when each peer
// was probed.
func play(s *Schedule, until boottime.Instant, answer func(p *Peer, at boottime.Instant) time.Duration) map[int][]boottime.Instant {
	type reply struct {
		p  *Peer
		id uint64
		at boottime.Instant
	}
	var replies []reply
	probes := map[int][]boottime.Instant{}
	id := uint64(0)
	for now := start; now <= until; {
		first := -1
		for i, r := range replies {
			if r.at <= now && (first < 0 || r.at < replies[first].at) {
				first = i
			}
		}
		if first >= 0 {
			p := replies[first].p
			if o, ok := s.Replied(p, replies[first].id, now); ok {
				s.Answered(p, o, true, now)
			}
			replies = append(replies[:first], replies[first+1:]...)
			continue
		}
		s.Tick(now)
		p, _, wait := s.Next(now)
		if p == nil {
			now = now.Add(wait)
			for _, r := range replies {
				now = min(now, r.at)
			}
			continue
		}
		id++
		probes[p.Index] = append(probes[p.Index], now)
		s.Probed(p, id, now)
		if rtt := answer(p, now); rtt > 0 {
			replies = append(replies, reply{p, id, now.Add(rtt)})
		}
	}
	return probes
}

func TestScheduleSpreadsPhases(t *testing.T) {
	s, p := testSchedule(100)
	tenths := map[int]int{}
	for _, ps := range play(s, start.Add(p.EvidenceInterval-1), func(*Peer, boottime.Instant) time.Duration { return time.Millisecond }) {
		tenths[int(ps[0].Sub(start)*10/p.EvidenceInterval)]++
	}
	for i := range 10 {
		if n := tenths[i]; n < 9 || n > 11 {
			t.Errorf("%d of 100 first probes in tenth %d of the interval", n, i)
		}
	}
}

func TestScheduleKeepsEvidenceFresh(t *testing.T) {
	s, p := testSchedule(3)
	const rtt = 3 * time.Millisecond
	for index, at := range play(s, start.Add(100*p.EvidenceInterval), func(*Peer, boottime.Instant) time.Duration { return rtt }) {
		if n := len(at); n < 97 || n > 103 {
			t.Errorf("peer %d was probed %d times in 100 intervals", index, n)
		}
		steady := true
		for i := 1; i < len(at); i++ {
			gap := at[i].Sub(at[i-1])
			if gap > p.EvidenceInterval*17/16 || gap < p.EvidenceInterval*15/16 {
				t.Errorf("peer %d was probed after %v", index, gap)
			}
			steady = steady && gap == at[1].Sub(at[0])
		}
		if steady {
			t.Errorf("peer %d is probed without jitter", index)
		}
	}
}

func TestScheduleAsksAgainAndBacksOff(t *testing.T) {
	s, p := testSchedule(1)
	at := play(s, start.Add(10*time.Minute), func(*Peer, boottime.Instant) time.Duration { return 0 })[1]
	silentSince := at[0].Add(p.EvidenceMaxAge)
	for i := 1; i < len(at); i++ {
		gap, least, most := at[i].Sub(at[i-1]), p.EvidenceTimeout*6/5, p.EvidenceTimeout*13/10
		if at[i-1] > silentSince {
			least, most = p.EvidenceInterval*15/16, p.EvidenceInterval*17/16
		}
		if gap < least || gap > most {
			t.Fatalf("asked again after %v, %v into the silence", gap, at[i-1].Sub(start))
		}
	}
}

func TestScheduleBoundsWhatItRemembers(t *testing.T) {
	s, p := testSchedule(1)
	q := s.peers[0]
	for i := range uint64(1000) {
		s.Probed(q, i+1, start.Add(time.Duration(i)*time.Millisecond))
	}
	if len(q.sent) != maxOutstanding || cap(q.sent) > 2*maxOutstanding {
		t.Errorf("%d probes remembered in room for %d", len(q.sent), cap(q.sent))
	}
	if _, ok := s.Replied(q, 1, start.Add(time.Second)); ok {
		t.Error("a probe that was pushed out is answered")
	}
	late := start.Add(999*time.Millisecond + p.EvidenceMaxAge)
	if _, ok := s.Replied(q, 1000, late); ok {
		t.Error("an answer as old as EvidenceMaxAge counts")
	}
}

func TestScheduleMatchesReplies(t *testing.T) {
	s, _ := testSchedule(2)
	a, b := s.byIndex[1], s.byIndex[2]
	s.Probed(a, 10, start+1)
	s.Probed(a, 11, start+2)
	s.Probed(a, 12, start+3)
	if _, ok := s.Replied(b, 10, start+5); ok {
		t.Error("a probe of one peer is answered by another")
	}
	if at, ok := s.Replied(a, 11, start+5); !ok || at.At != start+2 {
		t.Errorf("reply is dated %v, %v", at, ok)
	}
	if _, ok := s.Replied(a, 11, start+5); ok {
		t.Error("a reply counts twice")
	}
	if _, ok := s.Replied(a, 10, start+5); ok {
		t.Error("a reply older than one that has come counts")
	}
	if at, ok := s.Replied(a, 12, start+6); !ok || at.At != start+3 {
		t.Errorf("the youngest probe is not answered: %v, %v", at, ok)
	}
}

func TestUrgeIsBounded(t *testing.T) {
	s, _ := testSchedule(1)
	q := s.peers[0]
	s.Probed(q, 1, start)
	s.Urge(q, start.Add(time.Millisecond))
	if got := q.due.Sub(start); got != urgeInterval {
		t.Errorf("urged to %v after the last probe", got)
	}
	s.Urge(q, start.Add(time.Hour))
	if got := q.due.Sub(start); got != urgeInterval {
		t.Errorf("an urge put the probe off to %v", got)
	}
}

func TestScheduleWithoutPeers(t *testing.T) {
	s, _ := testSchedule(0)
	s.NudgeSome(start)
	if p, _, _ := s.Next(start); p != nil {
		t.Error("somebody is due")
	}
}
