package publish

import (
	"os"
	"path/filepath"
	"testing"
)

// Guard: a process that was killed and hangs takes connections, and is not to be called one that serves.
func TestKilledProcessThatCannotEnd(t *testing.T) {
	for stat, want := range map[string]bool{
		"7 (fencing-agent) Z 1 7 7 0": true,
		"7 (fencing-agent) S 1 7 7 0": false,
		"7 (fencing-agent) D 1 7 7 0": false, // for a moment, as every process is
		"7 (a) Z ) S 1 7 7 0":         false,
		"7 (a) S ) Z 1 7 7 0":         true,
		"":                            false,
	} {
		proc := t.TempDir()
		if err := os.Mkdir(filepath.Join(proc, "7"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, "7", "stat"), []byte(stat), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := (process{pid: 7}).killed(proc); got != want {
			t.Errorf("%q: killed %v", stat, got)
		}
	}
	if (process{}).killed(t.TempDir()) {
		t.Error("a process that is not known was killed")
	}
}
