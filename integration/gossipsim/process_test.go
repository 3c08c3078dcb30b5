package gossipsim

import (
	"context"
	"encoding/gob"
	"errors"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestRunProcess(t *testing.T) {
	r, err := RunProcess(t.Context(), Self(roleChild), config(5, "auto", "isolate", lasting(6*time.Second)))
	if err != nil {
		t.Fatal(err)
	}
	expectAll(t, "isolated node below quorum", r.BelowQuorum, 1, dMax(5)+time.Second)
	if r.Wall <= 0 || r.PeakRSS < 1<<20 || r.Virtual != 11500*time.Millisecond || r.Method != Evidence {
		t.Errorf("report %+v", r)
	}
}

func TestRunAllKeepsTheOrder(t *testing.T) {
	var configs []Config
	for _, set := range []string{"lan", "adr-raw", "auto"} {
		configs = append(configs, config(3, set, "idle", lasting(time.Second)))
	}
	var ended atomic.Int64
	reports, err := RunAll(t.Context(), Self(roleChild), configs, 2, func() { ended.Add(1) })
	if err != nil || ended.Load() != 3 {
		t.Fatal(err)
	}
	for i, r := range reports {
		if r.Config.Set != configs[i].Set {
			t.Errorf("report %d is about %s", i, r.Config.Set)
		}
	}
}

func TestProcessesFail(t *testing.T) {
	good := config(3, "auto", "idle", lasting(time.Second))
	for _, c := range []struct {
		name    string
		command Command
		cfg     Config
		want    string
	}{
		{"a bad configuration", Self(roleChild), config(1, "auto", "idle"), "nodes must be 2 to 1000, not 1"},
		{"a child that panics", Self(roleBroken), good, "the process ended early: exit status 2: panic: the child breaks"},
		{"no program", Command{"/nonexistent", []string{"x"}}, good, "no such file"},
	} {
		if _, err := RunProcess(t.Context(), c.command, c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
		if _, err := RunAll(t.Context(), c.command, []Config{c.cfg, c.cfg, c.cfg}, 2, func() {}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func TestCancelEndsTheChild(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := RunProcess(ctx, Self(roleChild), config(10, "auto", "idle", lasting(24*time.Hour))); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// A child must not outlive its parent, however the parent ended.
func TestChildEndsWithItsParent(t *testing.T) {
	self := Self(roleChild)
	cmd := exec.CommandContext(t.Context(), self.Path, self.Args[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := gob.NewEncoder(in).Encode(config(10, "auto", "idle", lasting(24*time.Hour))); err != nil {
		t.Fatal(err)
	}
	in.Close()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the child ended with %v", err)
	}
}
