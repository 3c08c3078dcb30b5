package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// parentEnv names the variable that makes the test binary start a program in the folder, and wait.
const parentEnv = "CONTROLPLANE_TEST_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		if _, err := start(filepath.Join(dir, "program"), dir, "child"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		select {}
	}
	os.Exit(m.Run())
}

// program makes a shell script that replaces kubetest.
func program(t *testing.T, script string) Config {
	t.Helper()
	c := Config{Dir: t.TempDir()}
	c.Binary = filepath.Join(c.Dir, "program")
	if err := os.WriteFile(c.Binary, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStartSaysWhyAProgramEnded(t *testing.T) {
	c := program(t, "echo \"$1: no such luck\" >&2; exit 3")
	_, err := Start(t.Context(), c)
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"etcd ended: exit status 3", "etcd: no such luck", filepath.Join(c.Dir, "etcd.log")} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error lacks %q: %v", part, err)
		}
	}
}

// Guard: the attempts. Another program may take a port between its choice and its use.
func TestStartTriesOtherPorts(t *testing.T) {
	c := program(t, "echo \"$@\" >> ports; echo 'bind: address already in use'; exit 1")
	if _, err := Start(t.Context(), c); !errors.Is(err, errPortTaken) {
		t.Errorf("error %v", err)
	}
	text, err := os.ReadFile(filepath.Join(c.Dir, "ports"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		seen[line] = true
	}
	if len(seen) != attempts {
		t.Errorf("%d different attempts, want %d:\n%s", len(seen), attempts, text)
	}
}

func TestStartRefusesMissingPrograms(t *testing.T) {
	if _, err := Start(t.Context(), Config{Binary: "/nonexistent/kubetest", Dir: t.TempDir()}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// Guard: the parent-death signal, and the thread that has to live for it.
func TestProgramsDieWithTheirParent(t *testing.T) {
	c := program(t, "echo $$ > pid.new; mv pid.new pid; exec sleep 600")
	parent := exec.Command("/proc/self/exe")
	parent.Env = append(os.Environ(), parentEnv+"="+c.Dir)
	var output bytes.Buffer
	parent.Stdout, parent.Stderr = &output, &output
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	await(t, "the program runs", func() bool {
		text, err := os.ReadFile(filepath.Join(c.Dir, "pid"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	if !runs(pid) {
		t.Errorf("the program ended before its parent: %s", &output)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	await(t, "the program is gone with its parent", func() bool { return !runs(pid) })
}

// runs reports whether the process exists and is not a zombie.
func runs(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, ok := strings.Cut(string(text), ") ")
	return ok && !strings.HasPrefix(state, "Z")
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within 30s: %s", what)
		}
	}
}

func TestStopEndsWhatDoesNotListen(t *testing.T) {
	c := program(t, "trap '' TERM; echo > ready; while :; do sleep 1; done")
	p, err := start(c.Binary, c.Dir, "deaf")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the program runs", func() bool { _, err := os.Stat(filepath.Join(c.Dir, "ready")); return err == nil })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.stop(ctx); err == nil {
		t.Error("no error from a program that had to be killed")
	}
	if p.ended() == nil {
		t.Error("the program still runs")
	}
}
