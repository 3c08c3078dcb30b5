package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/parts"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/trials"
	"github.com/fencing-agent/fencing-agent/procfs"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// armRetry is the time between two attempts to arm a watchdog that could not be armed.
const armRetry = 5 * time.Second

// guard keeps this node alive or lets it be reset. It consists of the watchdog's feeder with the permission that the
// loop gives it, and of what takes the node down before the watchdog does. The loop owns all fields but deadline.
type guard struct {
	cfg   *config.Config
	log   *slog.Logger
	clock boottime.Clock

	feeder *wdt.Feeder
	dev    watchdog.Device
	device string // path of the real watchdog

	condemned bool       // the feeder was condemned
	mute      bool       // condemned, and it is not certain when the watchdog will have reset the node
	bar       troubleLog // what keeps this node from condemning itself

	granted  boottime.Instant // until then the feeder may feed
	deadline atomic.Int64     // the same, for all goroutines; 0: nothing is permitted

	disarmed  bool
	disarming uint64           // number of the latest disarm that the feeder was asked for
	armAgain  boottime.Instant // earliest time of the next attempt to arm
	wait      armWait

	metrics *wdt.Metrics

	parts *parts.List

	tried tried

	store  wdt.Store   // keeps the watchdog's descriptor when the agent is killed; nil: nothing does
	alone  atomic.Bool // no other agent of this node runs
	locked bool        // beAlone has already taken the lock that marks a running agent

	disable      *disableFile // also written by clients of the socket
	maintenances maintenances
	real         *wdt.Device // nil: a dry run, or a test

	strike func() error // nil: the node waits for the watchdog
	struck bool
}

// watchdogPart is the watchdog among the parts of the agent.
const watchdogPart = "watchdog"

// open finds the device and what takes the node down before it expires, and checks both as far as that is possible
// without touching them. The real trigger is only used with the real device: a dry run or a test must not reset
// anything.
//
// A missing watchdog, or one that another program has, does not end the start: the quorum would lack a healthy node.
// Until the watchdog can be armed, the node counts as unguarded. Its statement says so, and peers never prove its death
// by time.
func (g *guard) open(given watchdog.Device) (dev watchdog.Device, realtime bool, err error) {
	if given != nil {
		return given, false, nil
	}
	if g.cfg.Watchdog.Driver == config.DriverNone {
		return &wdt.None{}, false, nil
	}
	real := wdt.Named(g.cfg.Watchdog.Device)
	if g.tried.seen != nil {
		real.Measured(g.tried.seen.Of)
		g.sayTried()
	}
	if g.store != nil {
		real.Use(g.store, g.alone.Load)
	}
	// The watchdog is armed with the first quorum, but an obstacle has to be reported at the start.
	missing := real.Probe(g.cfg.Watchdog.Timeout)
	if wrong := (*wdt.WrongError)(nil); errors.As(missing, &wrong) {
		return nil, false, fmt.Errorf("watchdog: %w; for a dry run set watchdog.driver to none", missing)
	}
	g.device, g.real = real.Path(), real
	g.parts.Note(watchdogPart, missing)
	if g.strike == nil && g.cfg.Watchdog.OnFence != config.OnFenceExpire {
		trigger := wdt.NewSysrq()
		if err := trigger.Probe(); err != nil {
			return nil, false, fmt.Errorf("watchdog.onFence %s: %w", g.cfg.Watchdog.OnFence, err)
		}
		g.strike = trigger.Reboot
		if g.cfg.Watchdog.OnFence == config.OnFenceCrash {
			g.strike = trigger.Crash
		}
	}
	return real, true, nil
}

// knowingDriver adds to the configuration the identity of the watchdog's driver, if it can be read before the watchdog
// is armed, and the results of tests on this machine. What this node states before it first arms, and the sums that it
// shows, depend on both. If the identity cannot be read, it is known once the watchdog is armed.
func knowingDriver(o *Options) (*config.Config, tried) {
	c := *o.Config
	settled := trials.Settle(c.TrialsFile(), thisBoot(o))
	seen, err := trials.Look("", c.TrialsFile())
	seen.Strict = c.Watchdog.Driver == config.DriverTested

	dev := o.Watchdog
	if dev == nil && c.Watchdog.Driver != config.DriverNone {
		if real, err := wdt.Find(c.Watchdog.Device); err == nil {
			real.Measured(seen.Of)
			dev = real
		}
	}
	if named, ok := dev.(watchdog.Named); ok {
		c.WatchdogDriver = named.Known()
	} else if name, is := strings.CutPrefix(c.Watchdog.Device, wdt.IdentityPrefix); is && o.Watchdog == nil { // the device may appear later
		c.WatchdogDriver = watchdog.Driver{Identity: name, Measured: seen.Of(name)}
	}
	return &c, tried{seen, errors.Join(settled, err)}
}

// thisBoot is the nonce of this boot; 0: unknown.
func thisBoot(o *Options) uint64 {
	if o.Boot != 0 {
		return o.Boot
	}
	nonce, _ := procfs.BootNonce("/proc")
	return nonce
}

// start starts the watchdog's feeder, unarmed. The feeder's state is passed to report.
func (g *guard) start(given watchdog.Device, reg prometheus.Registerer, report func(wdt.State)) (stop func(cause error, abandon bool) error, err error) {
	dev, realtime, err := g.open(given)
	if err != nil {
		return nil, err
	}
	g.dev, g.metrics = dev, wdt.NewMetrics(reg)
	g.feeder, err = wdt.NewFeeder(wdt.Config{
		Device: dev, Timeout: g.cfg.Watchdog.Timeout, FeedInterval: g.cfg.Watchdog.FeedInterval,
		Clock: g.clock, Logger: g.log, Metrics: g.metrics, Realtime: realtime, OnState: report,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var ended error
	wg.Go(func() { ended = g.feeder.Run(ctx) })
	return func(cause error, abandon bool) error {
		defer wg.Wait()
		defer cancel()
		if abandon || cause != nil {
			cancel()
			wg.Wait()
			return ended // an error must not disarm: the device stays armed, and the peers may rely on that
		}
		return g.disarmForStop()
	}, nil
}

// disarmForStop ends the feeder by magic close. A watchdog that cannot be disarmed, or must not be because the
// permission to feed has ended, is left to fire.
func (g *guard) disarmForStop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	err := g.feeder.Stop(ctx)
	if errors.Is(err, wdt.ErrStarved) {
		return fmt.Errorf("planned stop of a node without permission to feed: %w", err)
	}
	return err
}

// permit sets how long the feeder may feed, and arms or disarms.
func (g *guard) permit(now boottime.Instant, fx *watchdog.Effects, by string) {
	if g.condemn(fx, by) {
		return
	}
	d := fx.Decision
	until := boottime.Instant(0)
	if d.Action != watchdog.Starve {
		until = d.Until
	}
	if until != g.granted {
		g.granted = until
		g.deadline.Store(int64(until))
		g.feeder.Grant(until)
	}
	switch {
	case fx.Disarm && !g.disarmed:
		g.disarmed = true
		g.disarming = g.feeder.Disarm(d.Reason.String())
	case fx.Arm && until > 0 && now >= g.armAgain:
		g.disarmed, g.armAgain = false, now.Add(armRetry)
		g.feeder.Arm() // does nothing while armed
	}
	if fx.Disarm {
		g.armAgain = 0
	}
}

// followMissing looks for a watchdog that was missing at the start, while nothing asks to arm it, for example in a
// maintenance. Only arming it shows whether it can be armed.
func (g *guard) followMissing(ctx context.Context) {
	if !g.parts.Lacks(watchdogPart) {
		return
	}
	probe := wdt.Named(g.cfg.Watchdog.Device) // a second one: the other belongs to the feeder
	g.parts.Keep(ctx, watchdogPart, func() error {
		switch s := g.feeder.State(); {
		case s.Armed:
			return nil
		case s.Status == wdt.Faulty:
			return s.Err
		}
		return probe.Probe(g.cfg.Watchdog.Timeout)
	})
}

// noteState reports that the watchdog is missing, or is no longer missing, by the feeder's attempt to arm it.
func (g *guard) noteState(s *wdt.State) {
	switch {
	case s.DryRun:
	case s.Status == wdt.Faulty && !s.Armed:
		g.parts.Note(watchdogPart, s.Err)
	case s.Armed && s.Status == wdt.Armed:
		g.parts.Note(watchdogPart, nil)
	}
}

// answers reports whether the feeder had carried out all its orders when it reported s. A report from before a disarm
// does not show the result of the disarm.
func (g *guard) answers(s *wdt.State) bool { return s.Obeyed >= g.disarming }

// until is the feeder's deadline, or 0. Any goroutine may call it.
func (g *guard) until() boottime.Instant { return boottime.Instant(g.deadline.Load()) }

// expired reports whether the permission has passed its deadline and was not renewed: the loop hangs, or the process
// hung until now. The feeder uses the same deadline.
func (g *guard) expired() bool {
	until := g.until()
	return until > 0 && g.clock() >= until
}

// takeDown takes the node down at once if that is configured. The watchdog keeps counting down: if the call fails or
// hangs, the node is reset when the watchdog expires.
func (g *guard) takeDown(now, since boottime.Instant, fx *watchdog.Effects) {
	if !fx.Strike || g.strike == nil || g.struck {
		return
	}
	g.struck = true
	g.log.Error("taking this node down: it has lost its quorum", "on_fence", string(g.cfg.Watchdog.OnFence),
		"reason", fx.Decision.Reason.String(), "starved_for_s", now.Sub(since).Seconds())
	if err := g.strike(); err != nil {
		g.log.Error("cannot take this node down; its watchdog will reset it", "error", err)
	}
}

// noteArming logs that the watchdog cannot be armed yet.
func (g *guard) noteArming(now boottime.Instant, waits bool) {
	// Without a device nothing is ever armed, and nothing counts down.
	waits = waits && g.cfg.Watchdog.Driver != config.DriverNone
	if g.wait.note(now, waits, g.cfg.EvidenceMaxAge()) {
		g.log.Warn("the watchdog is not armed yet: first a majority must answer that it knows of this agent or, in an equal split, a grant must name this node; "+
			"if the previous agent crashed, the watchdog may still count down and reset the node", "waited", g.cfg.EvidenceMaxAge())
	}
}

// armWait decides when to log that the watchdog waits to be armed. The peers take about a round of evidence to know of
// an agent; if the wait is longer, the countdown of the previous agent may reset the node.
type armWait struct {
	since boottime.Instant // zero: arming does not wait
	told  bool
}

// note records whether arming waits, and reports once per wait that the wait has become longer than patience.
func (w *armWait) note(now boottime.Instant, waits bool, patience time.Duration) bool {
	switch {
	case !waits:
		*w = armWait{}
	case w.since == 0:
		w.since = now
	case !w.told && now.Sub(w.since) >= patience:
		w.told = true
		return true
	}
	return false
}
