package agentsim

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"

	"github.com/fencing-agent/fencing-agent/integration/race"
)

// TestMain uses one processor: a bubble runs fastest on it, and its runs differ least.
func TestMain(m *testing.M) {
	race.Only("^TestScenarios$/^equal_split_of_(two|six.*)$|^TestMembersChange$/^one_more$|" +
		"^TestOrderedNodeIsFenced$/^four,_a_LUN$|^TestSentenceIsHandedOn$|^TestPlannedRestartIsNoLeft$/planned")
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400) // the heap is small, and most of it soon becomes garbage
	os.Exit(m.Run())
}

func run(t *testing.T, s Schedule) (r *Result) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agentsim")
	if err != nil {
		t.Fatal(err)
	}
	// This is done at once, because a long run creates thousands.
	defer func() { _ = os.RemoveAll(dir) }()
	synctest.Test(t, func(*testing.T) { r = Run(s, dir) })
	return r
}

// shrinkRuns limits the number of runs that are spent on shortening a failing schedule.
const shrinkRuns = 40

// mustHold fails the test if a property is broken, and prints the shortest schedule found that breaks one.
func mustHold(t *testing.T, s Schedule, r *Result) {
	t.Helper()
	if len(r.Violations) == 0 {
		return
	}
	last := r
	short := Shrink(s, func(s Schedule) bool {
		got := run(t, s)
		if len(got.Violations) > 0 {
			last = got
		}
		return len(got.Violations) > 0
	}, shrinkRuns)
	sampled := ""
	if s.Quiet {
		sampled = " SAMPLED=1"
	}
	t.Fatalf("%s\nreplay: make agentsim SEED=%d RUNS=1%s (%d of %d events remain)", Explain(short, last), s.Seed, sampled, len(short.Events), len(s.Events))
}
