package agent

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

func lonelyAgent(t *testing.T, onFence config.OnFence) *Agent {
	t.Helper()
	c := config.Default()
	c.Watchdog.OnFence, c.Watchdog.Driver = onFence, config.DriverNone
	r, err := roster.New(0, []roster.Member{{Name: "n1"}}, "n1")
	if err != nil {
		t.Fatal(err)
	}
	return &Agent{cfg: c, log: slog.New(slog.DiscardHandler), core: watchdog.NewCore(watchdog.Config{Roster: r, Networks: 1, Policy: netgossip.Any()})}
}

// Guard: the node is taken down when the core says so, once, and the agent lives on if that fails.
func TestTakeDown(t *testing.T) {
	a, calls := lonelyAgent(t, config.OnFenceReboot), 0
	a.strike = func() error { calls++; return errors.New("no such file") }
	a.takeDown(1, &watchdog.Effects{})
	if calls != 0 {
		t.Fatal("taken down without cause")
	}
	for range 3 {
		a.takeDown(1, &watchdog.Effects{Strike: true})
	}
	if calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
	a = lonelyAgent(t, config.OnFenceExpire)
	a.takeDown(1, &watchdog.Effects{Strike: true}) // nothing to call
}

// Guard: a dry run takes nothing down, whatever onFence says.
func TestDryRunHasNoTrigger(t *testing.T) {
	for _, how := range []config.OnFence{config.OnFenceExpire, config.OnFenceReboot, config.OnFenceCrash} {
		a := lonelyAgent(t, how)
		dev, realtime, err := a.openWatchdog()
		if _, dry := dev.(*wdt.None); err != nil || !dry || realtime || a.strike != nil {
			t.Errorf("%s: device %T, realtime %v, trigger %v, %v", how, dev, realtime, a.strike != nil, err)
		}
	}
}
