package agent

import (
	"fmt"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// openWatchdog finds the device and what takes the node down before it expires, and checks
// both as far as that is possible without touching them. Only the real device comes with the
// real trigger: a dry run or a test must not reset anything.
func (a *Agent) openWatchdog() (dev watchdog.Device, realtime bool, err error) {
	a.strike = a.opts.Strike
	if a.opts.Watchdog != nil {
		return a.opts.Watchdog, false, nil
	}
	if a.cfg.Watchdog.Driver == config.DriverNone {
		return &wdt.None{}, false, nil
	}
	// It is armed with the first quorum. That it cannot be must not wait until then.
	real, err := wdt.Find(a.cfg.Watchdog.Device)
	if err != nil {
		return nil, false, err
	}
	a.device = real.Path()
	if err := real.Probe(a.cfg.Watchdog.Timeout); err != nil {
		return nil, false, fmt.Errorf("watchdog: %w; for a dry run set watchdog.driver to none", err)
	}
	if a.strike == nil && a.cfg.Watchdog.OnFence != config.OnFenceExpire {
		trigger := wdt.NewSysrq()
		if err := trigger.Probe(); err != nil {
			return nil, false, fmt.Errorf("watchdog.onFence %s: %w", a.cfg.Watchdog.OnFence, err)
		}
		a.strike = trigger.Reboot
		if a.cfg.Watchdog.OnFence == config.OnFenceCrash {
			a.strike = trigger.Crash
		}
	}
	return real, true, nil
}

// takeDown ends the node at once where that is configured. The watchdog runs on: if the call
// fails or hangs, the node is reset when it expires.
func (a *Agent) takeDown(now boottime.Instant, fx *watchdog.Effects) {
	if !fx.Strike || a.strike == nil || a.struck {
		return
	}
	a.struck = true
	a.log.Error("taking this node down: it has lost its quorum", "on_fence", string(a.cfg.Watchdog.OnFence),
		"reason", fx.Decision.Reason.String(), "starved_for_s", now.Sub(a.core.Since()).Seconds())
	if err := a.strike(); err != nil {
		a.log.Error("taking this node down failed; its watchdog will reset it", "error", err)
	}
}
