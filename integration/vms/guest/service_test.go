package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/vms/control"
)

// wire collects what a guest reports to the harness.
type wire struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *wire) Read([]byte) (int, error) { select {} }

// said counts the lines that begin with prefix.
func (w *wire) said(prefix string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.Lines(w.buf.String()) {
		var m control.Message
		if json.Unmarshal([]byte(line), &m) == nil && strings.HasPrefix(m.Text, prefix) {
			n++
		}
	}
	return n
}

func (w *wire) await(t *testing.T, prefix string, count int) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for w.said(prefix) < count {
		if time.Now().After(deadline) {
			t.Fatalf("%q was said %d times, want %d", prefix, w.said(prefix), count)
		}
		<-ticker.C
	}
}

func newTestService(script string) (*service, *wire) {
	w := &wire{}
	return newService(&control.Boot{Service: []string{"/bin/sh", "-c", script}}, &link{port: w}), w
}

func TestServiceRestarts(t *testing.T) {
	s, w := newTestService("echo started; exit 1")
	s.start()
	w.await(t, "started", 2)
	if err := s.control("norestart"); err != nil {
		t.Fatal(err)
	}
}

// TestServiceAgain: the agent is not restarted after bad usage, after a clean end, or against the harness's request.
func TestServiceAgain(t *testing.T) {
	for _, c := range []struct {
		script            string
		wanted, norestart bool
		again             bool
	}{
		{"exit 1", true, false, true},
		{"kill -9 $$", true, false, true},
		{"exit 2", true, false, false},
		{"exit 0", true, false, false},
		{"kill -9 $$", true, true, false},
		{"kill -9 $$", false, false, false},
	} {
		s := &service{wanted: c.wanted, norestart: c.norestart}
		if got := s.again(exec.Command("/bin/sh", "-c", c.script).Run()); got != c.again {
			t.Errorf("%+v: started again: %v", c, got)
		}
	}
	s, w := newTestService("echo started; exit 2")
	s.start()
	w.await(t, "agent ended: exit status 2", 1)
	if err := s.control("resurrect"); err == nil {
		t.Error("an unknown verb was taken")
	}
}

func TestServiceRestartVerb(t *testing.T) {
	s, w := newTestService("trap 'exit 0' TERM; echo started; while :; do sleep 0.01; done")
	s.start()
	w.await(t, "started", 1)
	if err := s.control("restart"); err != nil {
		t.Fatal(err)
	}
	w.await(t, "started", 2)
	if err := s.control("stop"); err != nil {
		t.Fatal(err)
	}
	w.await(t, "agent ended: <nil>", 2)
	if err := s.control("stop"); err == nil {
		t.Error("a stopped agent was stopped")
	}
}
