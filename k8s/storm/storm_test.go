package storm

import (
	"math/rand/v2"
	"testing"
	"time"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func TestNodesBeginOneAfterTheOther(t *testing.T) {
	p := New(Settings{Evicting: 1, DeletesPerSecond: 20, MaxDeadPercent: 100})
	g := Group{"worker", 10, 1}
	if v := p.Begin("n1", g, noon); !v.Allowed {
		t.Fatalf("the first waits: %+v", v)
	}
	if v := p.Begin("n1", g, noon.Add(time.Minute)); !v.Allowed {
		t.Errorf("it waits for itself: %+v", v)
	}
	if v := p.Begin("n2", g, noon.Add(time.Minute)); v.Allowed || v.Reason != Evictions || v.Text != "evictions from n1 have to end first" {
		t.Errorf("the second: %+v", v)
	}
	// Guard: evictions that make no progress do not delay others for ever.
	if v := p.Begin("n2", g, noon.Add(patience+time.Second)); !v.Allowed {
		t.Errorf("the second after a stuck one: %+v", v)
	}
	if v := p.Begin("n3", g, noon.Add(patience+2*time.Second)); v.Allowed || v.Text != "evictions from n2 have to end first" {
		t.Errorf("the third: %+v", v)
	}
	p.End("n2")
	if v := p.Begin("n3", g, noon.Add(patience+3*time.Second)); !v.Allowed {
		t.Errorf("the third after the second has ended: %+v", v)
	}
}

// 1 to 10 of 10 nodes die, one after the other: each limit is a number of nodes.
func TestTooManyDead(t *testing.T) {
	for _, percent := range []int{10, 25, 50, 99, 100} {
		for deadNodes := 1; deadNodes <= 10; deadNodes++ {
			p := New(Settings{Evicting: 10, DeletesPerSecond: 20, MaxDeadPercent: percent})
			v := p.Begin("n1", Group{"worker", 10, deadNodes}, noon)
			if want := deadNodes <= percent/10; v.Allowed != want || !want && v.Reason != TooManyDead {
				t.Errorf("%d of 10 dead, at most %d %%: %+v", deadNodes, percent, v)
			}
		}
	}
}

// Guard: no second has more deletes than twice the rate (a burst and a second's worth), and over a longer time there
// are no more than the rate. A caller that waits as told may continue.
func TestDeletesArePaced(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	for range 100 {
		rate := 1 + r.IntN(50)
		p := New(Settings{DeletesPerSecond: rate})
		var at []time.Time
		now := noon
		for now.Before(noon.Add(20 * time.Second)) {
			wait := p.Delete(now)
			if wait == 0 {
				at = append(at, now)
				now = now.Add(time.Duration(r.IntN(int(20 * time.Millisecond))))
				continue
			}
			now = now.Add(wait + time.Duration(r.IntN(int(5*time.Millisecond))))
		}
		if most := rate*21 + 1; len(at) > most || len(at) < rate*10 && rate < 20 {
			t.Fatalf("rate %d: %d deletes in 20 s", rate, len(at))
		}
		for i := range at {
			n := 0
			for j := i; j < len(at) && at[j].Sub(at[i]) < time.Second; j++ {
				n++
			}
			if n > 2*rate {
				t.Fatalf("rate %d: %d deletes in one second", rate, n)
			}
		}
	}
}
