package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindProgram(t *testing.T) {
	dir := t.TempDir()
	agent, self := filepath.Join(dir, "fencing-agent"), filepath.Join(dir, "laboratory")
	find := func(given, self string) (string, error) { return findProgram("agent", given, "fencing-agent", self) }
	if _, err := find("", self); err == nil || !strings.Contains(err.Error(), "make build, or say with --agent") {
		t.Errorf("no agent beside: %v, want an error that says what to do", err)
	}
	if err := os.WriteFile(agent, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := find("", self); err != nil || got != agent {
		t.Errorf("found %q, %v; want %q", got, err, agent)
	}
	t.Chdir(dir)
	// The demo's agents have another working directory.
	if got, err := find("fencing-agent", "/elsewhere/laboratory"); err != nil || !filepath.IsAbs(got) {
		t.Errorf("found %q, %v; want an absolute path", got, err)
	}
}

func TestFormatLUNReportsWhatTheCommandSaid(t *testing.T) {
	dir := t.TempDir()
	fencectl := filepath.Join(dir, "fencectl")
	record := filepath.Join(dir, "args")
	write := func(script string) {
		t.Helper()
		if err := os.WriteFile(fencectl, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(`echo "$@" > ` + record)
	if err := formatLUN(fencectl)(t.Context(), "/x/lun.img", "demo", "g", 4); err != nil {
		t.Fatal(err)
	}
	args, err := os.ReadFile(record)
	if want := "lun init /x/lun.img --cluster demo --node-group g --slots 4\n"; err != nil || string(args) != want {
		t.Errorf("called with %q, %v; want %q", args, err, want)
	}
	write(`echo "fencectl: the device is mounted" >&2; exit 1`)
	if err := formatLUN(fencectl)(t.Context(), "/x/lun.img", "demo", "g", 4); err == nil || !strings.Contains(err.Error(), "the device is mounted") {
		t.Errorf("error %v, want the command's own words", err)
	}
}
