package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Guard: what could not be written as a whole is not there, under no name; and what is there stays.
func TestMakeFileIsWholeOrNotThere(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "gossip.keys")
	full := errors.New("no space left on device")
	half := func(w io.Writer) error { return errors.Join(say(w, "half of a k"), full) }
	if err := makeFile(name, 0o600, half); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
	whole := func(text string) func(io.Writer) error { return func(w io.Writer) error { return say(w, text) } }
	if err := makeFile(name, 0o600, whole("key")); err != nil {
		t.Fatal(err)
	}
	// Somebody else was faster, before and while it is written.
	if err := makeFile(name, 0o600, whole("another")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	late := filepath.Join(dir, "late")
	taken := func(w io.Writer) error {
		return errors.Join(say(w, "mine"), os.WriteFile(late, []byte("theirs"), 0o600))
	}
	if err := makeFile(late, 0o600, taken); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for file, want := range map[string]string{name: "key", late: "theirs"} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
		t.Errorf("%v: %v", all, err)
	}
}

func say(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}
