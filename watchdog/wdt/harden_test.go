package wdt

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog/watchdogtest"
)

// wardedHost permits what the test says.
type wardedHost struct{ memory, scheduler, io, oom error }

func (h *wardedHost) lockMemory() error          { return h.memory }
func (h *wardedHost) scheduleRealtime(int) error { return h.scheduler }
func (h *wardedHost) prioritizeIO(int) error     { return h.io }
func (h *wardedHost) adjustOOM(int) error        { return h.oom }

// lines is a log that several goroutines write.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// realtimeFeeder feeds a simulated device through the kernel's naps, on the real clock.
func realtimeFeeder(t *testing.T, h host, log *slog.Logger, m *Metrics) (*Feeder, *watchdogtest.Device, context.CancelFunc) {
	t.Helper()
	dev := watchdogtest.New(watchdogtest.Config{Clock: boottime.Now})
	f, err := NewFeeder(Config{
		Device: dev, Clock: boottime.Now, Timeout: time.Minute, FeedInterval: 5 * time.Millisecond, Logger: log, Metrics: m, Realtime: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.host = h
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Run(ctx) // what it says is known from the state
	}()
	return f, dev, func() { cancel(); <-done }
}

func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func TestRealtimeFeederFeedsStarvesAndStops(t *testing.T) {
	f, dev, stop := realtimeFeeder(t, &wardedHost{}, nil, nil)
	defer stop()
	f.Grant(boottime.Now().Add(time.Hour))
	f.Arm()
	await(t, "fed many times", func() bool { return dev.Stats().Feeds > 20 })
	f.Grant(0)
	await(t, "starved", func() bool { return f.State().Status == Starved })
	fed := dev.Stats().Feeds
	if err := f.Stop(t.Context()); !errors.Is(err, ErrStarved) {
		t.Errorf("stop while starved: %v", err)
	}
	if got := dev.Stats().Feeds; got != fed {
		t.Errorf("%d feeds without permission", got-fed)
	}
	f.Grant(boottime.Now().Add(time.Hour))
	await(t, "fed again", func() bool { return dev.Stats().Feeds > fed })
	if err := f.Stop(t.Context()); err != nil {
		t.Errorf("stop: %v", err)
	}
	if dev.Running() {
		t.Error("still armed")
	}
	f.Grant(0) // must not write to a descriptor that may belong to somebody else
}

// A caller that gave up does not have the watchdog disarmed later.
func TestAbandonedStopIsForgotten(t *testing.T) {
	f, dev, stop := realtimeFeeder(t, &wardedHost{}, nil, nil)
	defer stop()
	f.Grant(boottime.Now().Add(time.Hour))
	f.Arm()
	await(t, "fed", func() bool { return dev.Stats().Feeds > 0 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.stops <- stopRequest{ctx, make(chan error, 1)}
	f.poke()
	fed := dev.Stats().Feeds
	await(t, "fed on", func() bool { return dev.Stats().Feeds > fed+5 })
}

func TestMissingPrivilegesAreOneWarning(t *testing.T) {
	var out lines
	reg := prometheus.NewRegistry()
	h := &wardedHost{memory: errMemlock, scheduler: unix.EPERM, oom: unix.EACCES}
	_, _, stop := realtimeFeeder(t, h, slog.New(slog.NewTextHandler(&out, nil)), NewMetrics(reg))
	await(t, "warned", func() bool { return strings.Contains(out.String(), "not fully hardened") })
	stop()
	if n := strings.Count(out.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, out.String())
	}
	for _, want := range []string{"memory=", "scheduler=", "oom=", "CAP_SYS_NICE"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the warning lacks %s: %s", want, out.String())
		}
	}
	if strings.Contains(out.String(), " io=") {
		t.Errorf("warns of what worked: %s", out.String())
	}
	want := `
# HELP fencing_agent_watchdog_hardened 1 if the measure protects the feeder from load on the host: memory, scheduler, io, oom.
# TYPE fencing_agent_watchdog_hardened gauge
fencing_agent_watchdog_hardened{measure="io"} 1
fencing_agent_watchdog_hardened{measure="memory"} 0
fencing_agent_watchdog_hardened{measure="oom"} 0
fencing_agent_watchdog_hardened{measure="scheduler"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "fencing_agent_watchdog_hardened"); err != nil {
		t.Error(err)
	}
}

// Guard: the feeder's wait must not make work for the garbage collector, either.
func TestNapsDoNotAllocate(t *testing.T) {
	kernel, err := newKernelNap()
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.close()
	for name, n := range map[string]napper{"kernel": kernel, "runtime": newRuntimeNap()} {
		n.nap(0)
		if got := testing.AllocsPerRun(100, func() { n.poke(); n.nap(time.Hour) }); got != 0 {
			t.Errorf("%s: %v allocations per poked nap", name, got)
		}
		if got := testing.AllocsPerRun(100, func() { n.nap(time.Microsecond) }); got != 0 {
			t.Errorf("%s: %v allocations per nap", name, got)
		}
	}
}

func TestOOMScoreIsNeverRaised(t *testing.T) {
	proc := t.TempDir()
	path := filepath.Join(proc, "self/oom_score_adj")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ was, want string }{{"0\n", "-999"}, {"-997\n", "-999"}, {"-1000\n", "-1000\n"}} {
		if err := os.WriteFile(path, []byte(tc.was), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := (linuxHost{proc: proc}).adjustOOM(oomScoreAdj); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(got), strings.TrimSpace(tc.want)) {
			t.Errorf("from %q to %q, want %q (%v)", tc.was, got, tc.want, err)
		}
	}
}

// hardenedChild makes this test binary harden itself for real and say what became of it.
const hardenedChild = "WDT_HARDENED_CHILD"

// The real calls run in a process of their own: they concern all of it. Whatever the host
// permits, each measure works or says why not, and memory can still be had afterwards.
func TestRealHostInAProcessOfItsOwn(t *testing.T) {
	if os.Getenv(hardenedChild) != "" {
		failed := harden(linuxHost{proc: "/proc"})
		ballast := make([]byte, 64<<20)
		for i := 0; i < len(ballast); i += 4096 {
			ballast[i] = 1
		}
		for _, m := range measures {
			os.Stdout.WriteString(m + "=" + text(failed[m]) + ";\n")
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestRealHostInAProcessOfItsOwn$")
	cmd.Env = append(os.Environ(), hardenedChild+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, m := range measures {
		if !strings.Contains(string(out), m+"=") {
			t.Errorf("nothing about %s:\n%s", m, out)
		}
	}
	if strings.Contains(string(out), "invalid argument") {
		t.Errorf("a call is wrong:\n%s", out)
	}
	t.Logf("%s", out)
}
