package memberbook

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Guard: an older version does not count until it has been shown for so much time that the cluster must have been
// restored.
func TestOlderVersionsDoNotCount(t *testing.T) {
	var v Versions
	v.Begin(100)
	for _, c := range []struct {
		version uint64
		at      time.Duration
		want    bool
	}{
		{99, 1, false},
		{100, 2, true},
		{0, 3, true}, // from a controller that states none
		{99, time.Minute, false},
		{120, 2 * time.Minute, true}, // and the count begins again
		{100, 3 * time.Minute, false},
		{110, 12 * time.Minute, false},
		{110, 13*time.Minute - 1, false},
		{105, 13 * time.Minute, true},
		{104, 14 * time.Minute, false},
		{106, 15 * time.Minute, true},
	} {
		if got := v.Look(c.version, boottime.Instant(c.at)); got != c.want {
			t.Errorf("%d at %v: %v", c.version, c.at, got)
		}
	}
}
