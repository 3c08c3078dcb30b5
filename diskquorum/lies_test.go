package diskquorum

import (
	"math/rand/v2"
	"testing"

	"github.com/fencing-agent/fencing-agent/integration/race"
)

// TestStorageThatLies is TestRandomSchedules with faulty storage in every schedule. DISKQUORUM_LIES sets the seed of
// the first schedule, DISKQUORUM_RUNS their number; for a single schedule the trace is printed.
func TestStorageThatLies(t *testing.T) {
	base, runs := fromEnv(t, "DISKQUORUM_LIES", 1), uint64(1000)
	if race.Detector || testing.Short() {
		runs = 300
	}
	runs = fromEnv(t, "DISKQUORUM_RUNS", runs)
	total := explorerStats{}
	for _, found := range explore(base, runs, &total, func(e *explorer) {
		e.foreign, e.lies = nil, &lies{rng: rand.New(rand.NewPCG(e.seed, 0xb11))}
		if runs == 1 {
			e.rig.logf, e.rig.oracle.trace = t.Logf, t.Logf
		}
	}) {
		t.Errorf("%s\nhere: DISKQUORUM_LIES=SEED DISKQUORUM_RUNS=1 go test -v -run TestStorageThatLies ./diskquorum", found)
	}
	t.Logf("%d schedules from seed %d: a node was shown an older device %d times and could tell %d times; %d schedules came to where nothing is promised; %d decisions, %d steps under a grant",
		total.Schedules, base, total.Older, total.Known, total.Unpromised, total.Decided, total.Won)
	if runs >= 300 && (total.Known == 0 || total.Unpromised == 0 || total.Unpromised == total.Schedules || total.Decided == 0 || total.Won == 0) {
		t.Error("the schedules do not reach what they are to check")
	}
}
