package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// If a stage cannot be built, the error contains the program's own words, and nothing is left behind.
func TestStageIsBuiltOrSaysWhyNot(t *testing.T) {
	bin, record := t.TempDir(), filepath.Join(t.TempDir(), "args")
	t.Setenv("TMPDIR", t.TempDir())
	build := func() error {
		return InFolder("lab", os.Stderr, func(dir string) error {
			_, err := (&Stage{Bin: bin, Nodes: 4}).Build(t.Context(), dir)
			return err
		})
	}
	if err := build(); err == nil || !strings.Contains(err.Error(), "make build, or name its folder with --bin") {
		t.Errorf("no programs: %v, want an error that says what to do", err)
	}
	for name, script := range map[string]string{"fencing-agent": "", "fencectl": `echo "$@" > ` + record + `; echo "fencectl: the device is mounted" >&2; exit 1`} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := build(); err == nil || !strings.Contains(err.Error(), "the device is mounted") {
		t.Errorf("error %v, want the command's own words", err)
	}
	args, err := os.ReadFile(record)
	if a := string(args); err != nil || !strings.HasPrefix(a, "lun init /") || !strings.HasSuffix(a, "lun.img --cluster demo --node-group demo --slots 4\n") {
		t.Errorf("called with %q, %v", args, err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
