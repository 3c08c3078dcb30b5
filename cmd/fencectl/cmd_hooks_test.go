//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// sharedBuffer may be read while it is written.
type sharedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *sharedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *sharedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestHooks: a death that is proven runs the programs, and one that is contradicted runs them again; the end of the
// command is no failure.
func TestHooks(t *testing.T) {
	a := liveAgent(t, "healthy")
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(filepath.Join(dir, "note"), []byte("#!/bin/sh\necho \"$@\" >>"+log+"\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	said := &sharedBuffer{}
	ended := make(chan int)
	go func() {
		ended <- run(ctx, &environment{
			name: "fencectl", stdin: strings.NewReader(""), stdout: said, stderr: said,
			getenv: func(key string) string { return map[string]string{envSocket: a.path}[key] },
		}, []string{"hooks", dir})
	}()
	boot := nodeOf(scene(t, "peer-fenced"), "n4").GetDeath().GetBootNonce()
	awaitLog := func(want string) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(20 * time.Second); ; <-tick.C {
			got, _ := os.ReadFile(log)
			if string(got) == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the program noted %q, want %q; the command says\n%s", got, want, said)
			}
		}
	}
	a.set(changed(scene(t, "peer-fenced")))
	fenced := "fenced n4 " + boot + " time\n"
	awaitLog(fenced)
	// The boot that was called dead answers.
	a.set(changed(scene(t, "peer-fenced"), func(st *fencingv1.Status) {
		n := nodeOf(st, "n4")
		n.Reachable, n.State, n.Death = true, fencingv1.NodeState_NODE_STATE_REACHABLE, nil
		n.Token.BootNonce = boot
	}))
	awaitLog(fenced + "withdrawn n4 " + boot + " time\n")
	stop()
	if code := <-ended; code != exitOK {
		t.Errorf("exit %d, want 0: it was asked to stop\n%s", code, said)
	}
	wantPlain(t, strings.ReplaceAll(strings.ReplaceAll(said.String(), dir, "DIR"), a.path, "SOCKET"))
}

func TestHooksRefuses(t *testing.T) {
	a := liveAgent(t, "healthy")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "DIR is missing", nil},
		{exitUsage, "more than 0 is allowed", []string{t.TempDir(), "--limit", "0"}},
		{exitFailed, "no such file", []string{"/nowhere/hooks.d"}},
	} {
		if code, stdout, stderr := ask(t, a, 0, append([]string{"hooks"}, c.args...)...); code != c.code || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit %d, stdout %q, stderr %q", c.args, code, stdout, stderr)
		}
	}
}

// Guard: a withdrawal that comes while the command does not run is told when it runs again.
func TestHooksRemember(t *testing.T) {
	a := liveAgent(t, "peer-fenced")
	boot := nodeOf(scene(t, "peer-fenced"), "n4").GetDeath().GetBootNonce()
	dir, log, state := t.TempDir(), filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "told.json")
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "note"), []byte("#!/bin/sh\necho \"$@\" >>"+log+"\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	once := func(want string) {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		said, ended := &sharedBuffer{}, make(chan int)
		go func() {
			ended <- run(ctx, &environment{
				name: "fencectl", stdin: strings.NewReader(""), stdout: said, stderr: said,
				getenv: func(key string) string { return map[string]string{envSocket: a.path}[key] },
			}, []string{"hooks", dir, "--state", state})
		}()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(20 * time.Second); ; <-tick.C {
			if got, _ := os.ReadFile(log); string(got) == want {
				break
			} else if time.Now().After(end) {
				t.Fatalf("the program noted %q, want %q; the command says\n%s", got, want, said)
			}
		}
		stop()
		if code := <-ended; code != exitOK {
			t.Errorf("exit %d", code)
		}
	}
	fenced := "fenced n4 " + boot + " time\n"
	once(fenced)
	a.set(changed(scene(t, "peer-fenced"), func(st *fencingv1.Status) {
		n := nodeOf(st, "n4")
		n.Reachable, n.State, n.Death = true, fencingv1.NodeState_NODE_STATE_REACHABLE, nil
		n.Token.BootNonce = boot
	}))
	once(fenced + "withdrawn n4 " + boot + " time\n")
}
