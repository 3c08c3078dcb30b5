package sim

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/fencing-agent/fencing-agent/integration/race"
)

func TestMain(m *testing.M) {
	race.Only("^(TestRandom(Lease|Sampled|Voice)?Schedules|TestResultsComeInTheOrderOfTheirSeeds)$") // simulations beside each other
	debug.SetGCPercent(400)                                                                          // the heap is small, and most of it is garbage at once
	os.Exit(m.Run())
}
