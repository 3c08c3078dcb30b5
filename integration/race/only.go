package race

import (
	"flag"
	"fmt"
)

// Only makes a test binary run only the tests of this pattern under the race detector, unless -run asks for others.
// TestMain calls it. If a simulation has one goroutine, or its seeds all do the same kind of thing, the other tests
// find nothing more under the detector and take ten times as long. Long bubbles also break the detector
// (go.dev/issue/78156).
func Only(pattern string) {
	flag.Parse()
	if run := flag.Lookup("test.run"); Detector && run.Value.String() == "" {
		fmt.Println("under the race detector only these tests run:", pattern)
		if err := run.Value.Set(pattern); err != nil {
			panic(err)
		}
	}
}
