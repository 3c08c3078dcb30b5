package netgossip

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Guard: no peer's due becomes earlier, whatever the order in which dues are added and however many there are.
func TestDuesAreNeverEarlier(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 84))
		var d Dues
		want := map[int]boottime.Instant{}
		for p := range 1 + rng.IntN(12) {
			want[p] = boottime.Instant(1 + rng.Int64N(int64(time.Second)))
			d.Add(want[p], p)
		}
		for shorten := rng.IntN(3); shorten > 0 && d[1].At != 0; shorten-- {
			d.Shorten()
		}
		for p, due := range want {
			at, ok := d.Of(p)
			if !ok || at < due {
				t.Fatalf("seed %d: due at %v, is %v, %v", seed, due, at, ok)
			}
			if len(want) <= MaxDues && d[len(want)-1].At != 0 && at >= due.Add(dueGrain) {
				t.Fatalf("seed %d: due at %v, is %v, although there was room", seed, due, at)
			}
		}
		for i := 1; i < MaxDues; i++ {
			if d[i].At != 0 && (d[i].At <= d[i-1].At || d[i].Who.Intersects(d[i-1].Who)) || d[i].At != 0 && d[i].Who.IsEmpty() {
				t.Fatalf("seed %d: %+v", seed, d)
			}
		}
	}
	d := Dues{}
	d.Add(1, 3)
	if !d.Shorten() || d != (Dues{}) || d.Shorten() {
		t.Errorf("the only one is dropped: %+v", d)
	}
}
