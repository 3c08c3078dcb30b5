package sim

import (
	"os"
	"testing"
)

// This test runs the schedules of TestRandomSchedules on a LUN that goes back to an older state. Guard: B11; and nobody
// is called dead because of what the LUN contained only once.
func TestLUNThatGoesBack(t *testing.T) {
	b := asked(t, 60, 20, 2)
	if os.Getenv("SIM_SEED") == "" {
		// Every run uses the same schedules; docs/attacks.md says what other ones have found.
		b.base = 7001
	}
	back, known := 0, 0
	b.play(t, func(seed uint64, trace bool, logf func(format string, args ...any)) *Cluster {
		return randomSchedule(seed, true, trace, logf)
	}, func(_ uint64, c *Cluster) {
		if c.older.began {
			back++
		}
		known += c.older.known
	})
	t.Logf("%d schedules from seed %d, 0 violations; the LUN went back in %d of them, %d times in a way that all nodes could notice", b.runs, b.base, back, known)
	if b.runs >= 20 && (back == 0 || known == 0) {
		t.Error("the LUN never went back, or nobody noticed")
	}
}
