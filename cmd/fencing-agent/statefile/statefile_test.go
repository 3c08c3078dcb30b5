package statefile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("good"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("large"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(at("large"), maxSize+1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"good": "", "missing": "no such file", "pipe": "not a regular file", ".": "not a regular file", "large": "larger than",
	} {
		text, err := Read(at(name))
		switch {
		case want == "" && (err != nil || string(text) != "text"):
			t.Errorf("%s: %q, %v", name, text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want one with %q", name, err, want)
		}
	}
}

func TestWriteReplacesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "state")
	for _, text := range []string{"long content", "short"} {
		if err := Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path); err != nil || string(got) != text {
			t.Errorf("%q, %v, want %q", got, err, text)
		}
	}
	if err := Write(filepath.Join(path, "below"), nil); err == nil {
		t.Error("written below a file")
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestSyncAndRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := Write(path, nil); err != nil {
		t.Fatal(err)
	}
	if err := Sync(path); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := Remove(path); err != nil {
			t.Error(err)
		}
	}
	if err := Sync(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is gone was made durable: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Remove(path); err == nil {
		t.Error("a folder with something in it is gone")
	}
}

// Guard: the owner of the lock shows whether it is a second agent or one that cannot be seen.
func TestHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "running")
	if pid := Holder("/proc", path); pid != 0 {
		t.Errorf("process %d has a file that is not there", pid)
	}
	release, ok, err := Lock(path)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if pid := Holder("/proc", path); pid != os.Getpid() {
		t.Errorf("process %d has it, this is %d", pid, os.Getpid())
	}
	if _, ok, err := Lock(path); ok || err != nil {
		t.Errorf("two have it: %v, %v", ok, err)
	}
	if release(); Holder("/proc", path) != 0 {
		t.Error("somebody has it after its release")
	}
	if pid := Holder(t.TempDir(), path); pid != 0 {
		t.Errorf("process %d has it where nothing tells", pid)
	}
}
