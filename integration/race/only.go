package race

import (
	"flag"
	"fmt"
)

// Only has a test binary run only the tests of this pattern under the race detector, unless -run asks for others.
// TestMain calls it. Where a simulation has one goroutine, or each of many does what another seed does, the rest of the
// tests finds nothing more and takes ten times as long; long bubbles break the detector (go.dev/issue/78156).
func Only(pattern string) {
	flag.Parse()
	if run := flag.Lookup("test.run"); Detector && run.Value.String() == "" {
		fmt.Println("under the race detector only these tests run:", pattern)
		if err := run.Value.Set(pattern); err != nil {
			panic(err)
		}
	}
}
