package trials

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog/calibration"
)

// Guard: what a trial has shown outlives the next ones; a file that cannot be read is not replaced.
func TestTrialsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lists", "members-watchdog")
	if got, err := Read(path); len(got) != 0 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range most + 2 {
		w, err := Begin(path, calibration.Trial{Identity: "dog", Timeout: 10 * time.Second, Boot: uint64(i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Ran(9*time.Second, 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if err := w.Ran(10*time.Second, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if i == most {
			if err := w.Close(calibration.Failed); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := Read(path)
	if err != nil || len(got) != most {
		t.Fatalf("%d trials, %v", len(got), err)
	}
	last := got[most-1]
	if last.Boot != most+2 || last.Ran != 10*time.Second || last.Next != 10*time.Second+calibration.Every+40*time.Millisecond || last.End != "" || got[most-2].End != calibration.Failed {
		t.Errorf("%+v, before %+v", last, got[most-2])
	}
	if err := os.WriteFile(path, []byte("gibberish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Begin(path, calibration.Trial{Timeout: time.Second}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that cannot be read: %v", err)
	}
	if text, err := os.ReadFile(path); string(text) != "gibberish\n" {
		t.Errorf("%q, %v", text, err)
	}
}
