package agent

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets four fleets run in parallel even on two cores, because they mostly wait for watches, statements and
// evidence.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
