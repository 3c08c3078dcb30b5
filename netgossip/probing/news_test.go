package probing

import (
	"testing"
	"time"
)

// Guard: who is about to end tells all peers within the time that is left, whatever round is under way.
func TestLastWordsReachAllInTime(t *testing.T) {
	for _, n := range []int{12, 50, 1000} {
		r := newRig(t, n)
		r.run(10 * time.Second)
		r.SetSaid(7)
		r.NudgeAll(r.now)
		r.run(20 * time.Millisecond)
		r.NudgeAll(r.now) // wants another round
		told := map[int]bool{}
		answer := r.answer
		r.answer = func(p *Peer) time.Duration {
			told[p.Index] = told[p.Index] || r.Tells(p)
			return answer(p)
		}
		r.LastWords(500*time.Millisecond, r.now)
		r.probes = nil
		if r.run(550 * time.Millisecond); !r.sampling() || len(told) < n {
			t.Errorf("N=%d: %d are told, in samples %v", n, len(told), r.sampling())
		}
		for p, ok := range told {
			if !ok {
				t.Errorf("N=%d: peer %d is asked, and not told", n, p)
			}
		}
		if most := r.busiest(); most > n*5/4+50 {
			t.Errorf("N=%d: %d probes", n, most)
		}
		if len(r.nudges.queue) > 0 || r.renudge {
			t.Errorf("N=%d: it is told again", n)
		}
	}
}

// Guard: a packet that is lost does not make a peer miss the news: where samples are taken no other one tells it. When it has answered
// nothing is said again.
func TestNewsIsToldUntilItIsAnswered(t *testing.T) {
	r := newRig(t, 40)
	r.run(10 * time.Second)
	p := r.all[3]
	silent, told, asked := true, 0, 0
	r.answer = func(q *Peer) time.Duration {
		if q == p {
			if asked++; r.Tells(p) {
				told++
			}
			if silent {
				return 0
			}
		}
		return time.Millisecond
	}
	r.NudgeAll(r.now)
	r.run(500 * time.Millisecond)
	if !r.sampling() || told < 2 || told != asked {
		t.Errorf("told %d times of %d, in samples %v", told, asked, r.sampling())
	}
	silent = false
	r.run(time.Second)
	told, asked = 0, 0
	if r.run(20 * time.Second); told > 0 || asked == 0 {
		t.Errorf("after it has answered: told %d times of %d", told, asked)
	}
}
