package netgossip

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Guard: for no peer an instant or a horizon becomes earlier or shorter, whatever the order in which dues are added and
// however many there are.
func TestDuesAreNeverEarlier(t *testing.T) {
	for seed := range uint64(4000) {
		rng := rand.New(rand.NewPCG(seed, 84))
		var d Dues
		want := map[int]Due{}
		for p := range 1 + rng.IntN(12) {
			want[p] = Due{Since: boottime.Instant(1 + rng.Int64N(int64(time.Second))), Horizon: time.Minute}
			if rng.IntN(4) == 0 {
				want[p] = Due{Since: want[p].Since, Horizon: time.Duration(1+rng.IntN(3)) * 400 * time.Millisecond}
			}
			d.Add(want[p].Since, want[p].Horizon, p)
		}
		for shorten := rng.IntN(3); shorten > 0 && d[1].Horizon != 0; shorten-- {
			d.Shorten()
		}
		for p, w := range want {
			got := d.Of(p)
			if got == nil || got.Since < w.Since || got.Horizon < w.Horizon {
				t.Fatalf("seed %d: %+v became %+v", seed, w, got)
			}
			if len(want) <= MaxDues && d[len(want)-1].Horizon != 0 && (got.Since >= w.Since.Add(dueGrain) || got.Horizon != w.Horizon) {
				t.Fatalf("seed %d: %+v became %+v, although there was room", seed, w, got)
			}
		}
		for i := range d {
			used := d[i].Horizon != 0
			if used == d[i].Who.IsEmpty() || used && i > 0 && d[i-1].Horizon == 0 || i > 0 && d[i].Who.Intersects(d[i-1].Who) {
				t.Fatalf("seed %d: %+v", seed, d)
			}
		}
	}
	d := Dues{}
	d.Add(1, time.Second, 3)
	if !d.Shorten() || d != (Dues{}) || d.Shorten() {
		t.Errorf("the only one is dropped: %+v", d)
	}
}

// The two that are due first are merged: those that are not due yet keep their instants.
func TestTheFirstDuesAreMerged(t *testing.T) {
	for _, order := range [][]int{{1, 2, 3, 4, 5}, {5, 4, 3, 2, 1}, {3, 1, 5, 2, 4}} {
		var d Dues
		for _, p := range order {
			d.Add(boottime.Instant(p)*boottime.Instant(time.Second), time.Minute, p)
		}
		for p := 3; p <= 5; p++ {
			if got := d.Of(p).Since; got != boottime.Instant(p)*boottime.Instant(time.Second) {
				t.Errorf("%v: %d since %v", order, p, got)
			}
		}
		if one, two := d.Of(1).Since, d.Of(2).Since; one != two || two != 2*boottime.Instant(time.Second) {
			t.Errorf("%v: %v and %v", order, one, two)
		}
	}
}
