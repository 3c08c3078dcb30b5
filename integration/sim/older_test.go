package sim

import (
	"os"
	"testing"
)

// TestRandomSchedules on a LUN that goes back. Guard: B11, and nobody is called dead by what a LUN showed once.
func TestLUNThatGoesBack(t *testing.T) {
	b := asked(t, 60, 20, 2)
	if os.Getenv("SIM_SEED") == "" {
		b.base = 7001 // the same ones in every run; see docs/attacks.md for what another one has found
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
	t.Logf("%d schedules from seed %d, 0 violations; the LUN went back in %d, %d times so that all nodes could know", b.runs, b.base, back, known)
	if b.runs >= 20 && (back == 0 || known == 0) {
		t.Error("the LUN never went back, or nobody knew")
	}
}
