package sim

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/fencing-agent/fencing-agent/integration/race"
)

func TestMain(m *testing.M) {
	// These simulations run beside each other.
	race.Only("^(TestRandom(Lease|Sampled|Voice)?Schedules|TestResultsComeInTheOrderOfTheirSeeds)$")
	debug.SetGCPercent(400) // the heap is small, and most of it soon becomes garbage
	os.Exit(m.Run())
}
