package gossipsim

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// stalls makes one node of n stall once, in two phases of the tickers, and counts the LEFTs of it. Its packets wait in
// both directions, like those of a paused process.
func stalls(t *testing.T, n int, d time.Duration) (left int) {
	t.Helper()
	for seed := range uint64(2) {
		cfg := DefaultConfig(n)
		cfg.Seed, cfg.Duration = seed+1, 6*time.Second
		synctest.Test(t, func(t *testing.T) {
			w, err := newWorld(cfg)
			if err != nil {
				t.Fatal(err)
			}
			at := time.Duration(seed) * 331 * time.Millisecond
			w.faults = []Fault{{Kind: Slow, At: at, Nodes: []int{n / 2}, Blocked: d, Open: time.Hour}}
			r, err := w.run()
			if err = errors.Join(err, w.close()); err != nil {
				t.Fatal(err)
			}
			left += r.False.OfSlow
		})
	}
	return left
}

// docs/api.md lists the stalls that consumers see as LEFT.
func TestStallsThatAreLeft(t *testing.T) {
	for _, c := range []struct {
		n    int
		d    time.Duration
		left bool
	}{
		{4, 2500 * time.Millisecond, false}, {4, 4500 * time.Millisecond, true},
		{10, 1500 * time.Millisecond, false}, {10, 3500 * time.Millisecond, true},
	} {
		if got := stalls(t, c.n, c.d); got > 0 != c.left {
			t.Errorf("%d nodes, a stall of %v: %d LEFTs", c.n, c.d, got)
		}
	}
}
