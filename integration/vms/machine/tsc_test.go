package machine

import (
	"runtime"
	"testing"
)

func TestTSC(t *testing.T) {
	a, b := TSCKilohertz(), TSCKilohertz()
	if runtime.GOARCH != "amd64" {
		t.Skipf("%s has no such counter", runtime.GOARCH)
	}
	// If the two differed by a factor, a guest's seconds would have a wrong length.
	if a == 0 || max(a, b)-min(a, b) > a/100 {
		t.Errorf("%d and %d kHz", a, b)
	}
}
