package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"github.com/fencing-agent/fencing-agent/integration/race"
)

// besideEachOther are the tests in which simulations run beside each other. Any other has one goroutine, in
// which there is nothing for the race detector to find: it would only be ten times as slow.
const besideEachOther = "^(TestRandom(Lease|Sampled|Voice)?Schedules|TestResultsComeInTheOrderOfTheirSeeds)$"

func TestMain(m *testing.M) {
	flag.Parse()
	if only := flag.Lookup("test.run"); race.Detector && only.Value.String() == "" {
		fmt.Println("under the race detector only simulations beside each other run:", besideEachOther)
		if err := only.Value.Set(besideEachOther); err != nil {
			panic(err)
		}
	}
	debug.SetGCPercent(400) // the heap is small, and most of it is garbage at once
	os.Exit(m.Run())
}
