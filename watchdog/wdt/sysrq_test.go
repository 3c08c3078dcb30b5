package wdt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The real trigger is never pulled here: a file stands for it.
func TestSysrq(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trigger")
	s := &Sysrq{path: path}
	if err := s.Probe(); err == nil || !strings.Contains(err.Error(), "watchdog.onFence") {
		t.Errorf("missing: %v", err)
	}
	if err := s.Reboot(); err == nil {
		t.Error("no trigger, no error")
	}
	for want, pull := range map[string]func() error{"b": s.Reboot, "c": s.Crash} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Probe(); err != nil {
			t.Fatal(err)
		}
		if err := pull(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("wrote %q, want %q (%v)", got, want, err)
		}
	}
}

func TestSysrqIsTheKernelsOwn(t *testing.T) {
	if got := NewSysrq().path; got != "/proc/sysrq-trigger" {
		t.Errorf("path %s", got)
	}
}
