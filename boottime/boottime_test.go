package boottime

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func read(t *testing.T, clock int32) Instant {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		t.Fatal(err)
	}
	return Instant(ts.Nano())
}

func TestNowReadsTheBootClock(t *testing.T) {
	for range 1000 {
		before := read(t, unix.CLOCK_BOOTTIME)
		now := Now()
		after := read(t, unix.CLOCK_BOOTTIME)
		if now.Before(before) || after.Before(now) || now.IsZero() {
			t.Fatalf("Now() = %d, want between %d and %d", now, before, after)
		}
	}
}

// On a node that was never suspended, CLOCK_BOOTTIME and CLOCK_MONOTONIC show the same time. A time namespace moves
// only one of them, like a suspend.
func TestNowIsNotTheMonotonicClock(t *testing.T) {
	const shift = 1_000_000 * time.Second
	if os.Getenv("BOOTTIME_PRINT") != "" {
		os.Stdout.WriteString("now=" + strconv.FormatInt(int64(Now()), 10) + "\n")
		return
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("needs unshare(1) of util-linux 2.36 or newer")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(unshare, "--user", "--map-root-user", "--time", "--boottime", strconv.Itoa(int(shift/time.Second)),
		self, "-test.run=^TestNowIsNotTheMonotonicClock$")
	cmd.Env = append(os.Environ(), "BOOTTIME_PRINT=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && !strings.Contains(string(out), "now=") {
		t.Skipf("time namespaces are not permitted here: %s", out)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(out), "now=")
	text, _, _ = strings.Cut(text, "\n")
	shifted, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("output %q: %v", out, err)
	}
	if moved := Instant(shifted).Sub(Now()); moved < shift-time.Hour || moved > shift+time.Hour {
		t.Errorf("Now() moved by %v with a boot clock shifted by %v", moved, shift)
	}
}

// The feeder reads the clock on a path that must not wait for the garbage collector.
func TestNowDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(1000, func() { Now() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAdd(t *testing.T) {
	for _, c := range []struct {
		i    Instant
		d    time.Duration
		want Instant
	}{
		{100, 50, 150},
		{100, -50, 50},
		{100, 0, 100},
		{0, time.Second, Instant(time.Second)},
		{Never, 0, Never},
		{Never, time.Hour, Never},
		{Never, -time.Hour, Never}, // no deadline, an hour earlier, is still no deadline
		{Never - 1, 1, Never},
		{Never - 1, 2, Never},
		{1, time.Duration(Never), Never},
		{Never - 10, 5, Never - 5},
	} {
		if got := c.i.Add(c.d); got != c.want {
			t.Errorf("Instant(%d).Add(%d) = %d, want %d", c.i, c.d, got, c.want)
		}
	}
}

func TestCompare(t *testing.T) {
	if Instant(5).Sub(3) != 2 || Instant(3).Sub(5) != -2 {
		t.Error("Sub is not the signed difference")
	}
	if Instant(3).Before(3) || !Instant(2).Before(3) || Instant(4).Before(3) {
		t.Error("Before is not a strict order")
	}
	if !Instant(0).IsZero() || Instant(1).IsZero() || Never.IsZero() {
		t.Error("IsZero holds for something other than zero")
	}
	if !Now().Before(Never) {
		t.Error("the present is not before Never")
	}
}
