package procfs

import (
	"os"
	"path/filepath"
	"testing"
)

const rest = "ShdPnd:\t0000000000000100\nSigBlk:\t0000000000000100\n"

// Guard: a killed process that hangs must not count as a running one, whichever of its threads hangs.
func TestKilled(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		want   bool
	}{
		"another thread hangs":            {"Name:\tfencing-agent\nState:\tZ (zombie)\nSigPnd:\t0000000000000000\n" + rest, true},
		"the first thread hangs":          {"Name:\tfencing-agent\nState:\tD (disk sleep)\nSigPnd:\t0000000000000100\n" + rest, true},
		"other signals too":               {"Name:\tfencing-agent\nState:\tD (disk sleep)\nSigPnd:\t0000000000004103\n" + rest, true},
		"alive":                           {"Name:\tfencing-agent\nState:\tS (sleeping)\nSigPnd:\t0000000000000000\n", false},
		"in an I/O, as every process is":  {"Name:\tfencing-agent\nState:\tD (disk sleep)\nSigPnd:\t0000000000000000\n" + rest, false},
		"another signal":                  {"Name:\tfencing-agent\nState:\tD (disk sleep)\nSigPnd:\t0000000000000200\n" + rest, false},
		"a name that looks like a state":  {"Name:\tState:\tZ\nState:\tS (sleeping)\nSigPnd:\t0000000000000000\n", false},
		"a name with an escaped line end": {"Name:\ta\\nState:\tZ\nState:\tS (sleeping)\nSigPnd:\t0000000000000000\n", false},
		"cut off":                         {"Name:\tfencing-agent\nState:\tD (disk sleep)\nSigPnd:\t", false},
		"empty":                           {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			proc := t.TempDir()
			if err := os.Mkdir(filepath.Join(proc, "7"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(proc, "7", "status"), []byte(c.status), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := Killed(proc, 7); got != c.want {
				t.Errorf("killed %v:\n%s", got, c.status)
			}
		})
	}
}

// The real kernel: this test is alive, and no process has number 0.
func TestKilledRealKernel(t *testing.T) {
	for _, pid := range []int{os.Getpid(), 0} {
		if Killed("/proc", pid) {
			t.Errorf("process %d was killed", pid)
		}
	}
}

func TestBootNonce(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "sys/kernel/random/boot_id")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := BootNonce(root); err == nil {
		t.Error("there is no file")
	}
	for text, want := range map[string]uint64{"024bc581-b3a3-4be2-9a1c-111111111111\n": 0x024bc581b3a34be3, "024bc581": 0, "zz": 0, "": 0} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := BootNonce(root); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %x, %v", text, got, err)
		}
	}
}
