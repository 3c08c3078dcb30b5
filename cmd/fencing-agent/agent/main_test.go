package agent

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets four fleets run beside each other also on two cores: they wait, for watches, statements and evidence.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
