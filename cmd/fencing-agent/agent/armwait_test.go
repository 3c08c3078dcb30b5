package agent

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Guard: a wait is told of once, and only a long one.
func TestLongWaitForArmingIsToldOnce(t *testing.T) {
	var w armWait
	const sec = boottime.Instant(time.Second)
	for _, tc := range []struct {
		at    boottime.Instant
		waits bool
		want  bool
	}{
		{10 * sec, true, false}, {13 * sec, true, false}, {14 * sec, true, true}, {15 * sec, true, false},
		{16 * sec, false, false}, {17 * sec, true, false}, {20 * sec, true, false}, {21 * sec, true, true},
	} {
		if got := w.note(tc.at, tc.waits, 4*time.Second); got != tc.want {
			t.Errorf("at %v: told %v, want %v", time.Duration(tc.at), got, tc.want)
		}
	}
}
