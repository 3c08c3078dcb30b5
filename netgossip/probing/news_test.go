package probing

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Guard: a node that is about to end notifies all peers within the remaining time, a few of them at once, whatever
// round is under way.
func TestLastWordsReachAllInTime(t *testing.T) {
	for _, n := range []int{12, 50, 1000} {
		r := newRig(t, n)
		r.run(10 * time.Second)
		r.SetSaid(7)
		r.NudgeAll(r.now)
		r.run(20 * time.Millisecond)
		r.NudgeAll(r.now) // requests another round
		told := map[int]bool{}
		answer := r.answer
		r.answer = func(p *Peer) time.Duration {
			told[p.Index] = told[p.Index] || r.Tells(p)
			return answer(p)
		}
		r.LastWords(500*time.Millisecond, r.now)
		r.probes = nil
		if r.run(urgeInterval); n <= fewPeers && len(told) < n {
			t.Errorf("N=%d: %d are told at once", n, len(told))
		}
		if r.run(500 * time.Millisecond); !r.sampling() || len(told) < n {
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

// Guard: a lost packet does not make a peer miss the news, because with samples no other packet would bring it. After
// the peer has answered, it is not notified again.
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

// Guard: if each of many peers is probed, a repeated brief probe announces nothing.
func TestNewsIsToldAgainWhereEachOfManyIsProbed(t *testing.T) {
	r := newRig(t, 300)
	r.SetDemand(netgossip.Demand{Others: 300, Share: 4}, r.now)
	r.run(10 * time.Second)
	p, told, asked := r.all[3], 0, 0
	r.answer = func(q *Peer) time.Duration {
		if q != p {
			return time.Millisecond
		}
		if asked++; r.Tells(p) {
			told++
		}
		return 0
	}
	full := r.full[p.Index]
	r.nudge(p, r.now)
	r.run(time.Second)
	if full = r.full[p.Index] - full; !r.crowded() || asked < 3 || told != asked || full != asked {
		t.Errorf("crowded %v: of %d probes %d tell, and %d are not brief", r.crowded(), asked, told, full)
	}
}

// Guard: the answer to a probe from before the news does not end the notification: the peer has not heard the news.
func TestAnAnswerFromBeforeTheNewsIsNoneToIt(t *testing.T) {
	r := newRig(t, 40)
	r.run(10 * time.Second)
	p := r.all[3]
	r.Probed(p, 1<<40, r.now)
	before := Probe{ID: 1 << 40, At: r.now}
	r.now = r.now.Add(60 * time.Millisecond)
	r.nudge(p, r.now)
	r.Probed(p, 1<<41, r.now)
	if r.Answered(p, before, true, r.now.Add(time.Millisecond)); !r.sampling() || !r.Tells(p) {
		t.Errorf("samples %v: an older question's answer ends it", r.sampling())
	}
	news := Probe{ID: 1 << 41, At: r.now}
	if r.Answered(p, news, true, r.now.Add(2*time.Millisecond)); r.Tells(p) {
		t.Error("it is told after it was heard")
	}
}
