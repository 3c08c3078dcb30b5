package agent

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/parts"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

func unarmed(onFence config.OnFence) *guard {
	c := config.Default()
	c.Watchdog.OnFence, c.Watchdog.Driver = onFence, config.DriverNone
	return &guard{cfg: c, log: slog.New(slog.DiscardHandler)}
}

// Guard: the node is taken down when the core demands it, once. If that fails, the agent goes on.
func TestTakeDown(t *testing.T) {
	g, calls := unarmed(config.OnFenceReboot), 0
	g.strike = func() error { calls++; return errors.New("no such file") }
	g.takeDown(1, 0, &watchdog.Effects{})
	if calls != 0 {
		t.Fatal("taken down without cause")
	}
	for range 3 {
		g.takeDown(1, 0, &watchdog.Effects{Strike: true})
	}
	if calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
	g = unarmed(config.OnFenceExpire)
	g.takeDown(1, 0, &watchdog.Effects{Strike: true}) // there is no trigger to call
}

// Guard: a dry run takes nothing down, whatever the value of onFence.
func TestDryRunHasNoTrigger(t *testing.T) {
	for _, how := range []config.OnFence{config.OnFenceExpire, config.OnFenceReboot, config.OnFenceCrash} {
		g := unarmed(how)
		dev, realtime, err := g.open(nil)
		if _, dry := dev.(*wdt.None); err != nil || !dry || realtime || g.strike != nil {
			t.Errorf("%s: device %T, realtime %v, trigger %v, %v", how, dev, realtime, g.strike != nil, err)
		}
	}
}

// Guard: a node starts and takes part without a guard if its watchdog is missing or belongs to another program. A file
// that cannot be a watchdog ends the start. What the feeder finds later is recorded.
func TestStartsWithoutItsWatchdog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, "")
	for device, starts := range map[string]bool{"/dev/no-such-watchdog": true, "identity:no such": true, file: false, t.TempDir(): false} {
		g := unarmed(config.OnFenceExpire)
		g.cfg.Watchdog.Driver, g.cfg.Watchdog.Device = config.DriverDevice, device
		g.parts = parts.New(g.log, prometheus.NewRegistry())
		dev, realtime, err := g.open(nil)
		if (err == nil) != starts || starts && (dev == nil || !realtime || !g.parts.Lacks(watchdogPart)) {
			t.Errorf("%s: %T, %v; missing: %v", device, dev, err, g.parts.Missing())
		}
		if !starts {
			continue
		}
		for _, s := range []struct {
			state wdt.State
			lacks bool
		}{
			{wdt.State{Status: wdt.Faulty, Err: errors.New("open: no driver")}, true}, {wdt.State{Status: wdt.Unarmed}, true},
			{wdt.State{Status: wdt.Armed, Armed: true}, false}, {wdt.State{Status: wdt.Disarmed}, false}, {wdt.State{Status: wdt.Faulty, Err: errors.New("open: busy")}, true},
		} {
			if g.noteState(&s.state); g.parts.Lacks(watchdogPart) != s.lacks {
				t.Errorf("%s after %+v: missing: %v", device, s.state, g.parts.Missing())
			}
		}
	}
}

// Guard: only a long wait is reported, and only once.
func TestLongWaitForArmingIsToldOnce(t *testing.T) {
	var w armWait
	const sec = boottime.Instant(time.Second)
	for _, tc := range []struct {
		at    boottime.Instant
		waits bool
		want  bool
	}{
		{10 * sec, true, false}, {13 * sec, true, false}, {14 * sec, true, true}, {15 * sec, true, false},
		{16 * sec, false, false}, {17 * sec, true, false}, {20 * sec, true, false}, {21 * sec, true, true},
	} {
		if got := w.note(tc.at, tc.waits, 4*time.Second); got != tc.want {
			t.Errorf("at %v: told %v, want %v", time.Duration(tc.at), got, tc.want)
		}
	}
}
