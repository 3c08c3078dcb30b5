package wdt

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

const (
	// shortestPause keeps a clock that lags behind the timers from turning into a spin.
	shortestPause = time.Millisecond
	// blindCadence feeds a watchdog whose timeout is unknown. Timeouts are whole seconds,
	// so twice a second is enough for every one of them.
	blindCadence = 500 * time.Millisecond
)

// Run feeds until ctx ends or Stop succeeds. It must be called once, on a goroutine of
// its own. When ctx ends, an armed device stays armed and open, and Run returns an error
// that wraps [ErrLeftArmed].
//
// With Config.Realtime it locks the process in memory, gives its own thread a real-time
// priority, lets the I/O of all threads go first and protects the process from the OOM
// killer, as far as each is permitted. What failed is logged in one warning.
func (f *Feeder) Run(ctx context.Context) error {
	if !f.started.CompareAndSwap(false, true) {
		return errors.New("watchdog feeder: Run called twice")
	}
	defer close(f.exited)

	if f.host != nil {
		// The priority is that of the thread. It must not go back to the pool: it stays locked, and the runtime ends it.
		runtime.LockOSThread()
		f.reportHardening(harden(f.host))
	}
	defer f.napper.close()
	defer context.AfterFunc(ctx, f.poke)()

	end, reported := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(reported)
		f.report(end)
	}()
	defer func() {
		close(end)
		<-reported
	}()

	done := ctx.Done()
	for pause := time.Duration(0); ; pause = f.step() {
		f.napper.nap(pause)
		select {
		case <-done:
			if f.loop.open && f.dry == nil {
				return fmt.Errorf("watchdog feeder: %w: %w", ctx.Err(), ErrLeftArmed)
			}
			return nil
		case r := <-f.stops:
			f.obey()
			if r.ctx.Err() == nil {
				err := f.plannedStop()
				r.reply <- err
				if err == nil {
					return nil
				}
			}
		default:
		}
		f.obey()
		f.execute()
		f.armIfPermitted()
	}
}

// reportHardening says once, and in the metrics, what the host did not permit.
func (f *Feeder) reportHardening(failed map[string]error) {
	attrs := make([]any, 0, 2*len(measures))
	for i, m := range measures {
		err := failed[m]
		f.metrics.hardened[i].Store(err == nil)
		if err != nil {
			attrs = append(attrs, m, err)
		}
	}
	f.metrics.hardening.Store(true)
	if len(attrs) > 0 {
		f.log.Warn("the feeder is not fully hardened: under heavy load this node may be reset although it is healthy; "+
			"permit CAP_IPC_LOCK, CAP_SYS_NICE and CAP_SYS_RESOURCE", attrs...)
	}
}

// step feeds if that is due and permitted, and returns how long the loop may sleep. It is the feed path: no
// allocation, no lock, no log, and nothing slow between reading the clock and the feed.
//
// There is no extra feed shortly before a grant ends. It would let a node without a
// verdict live longer by up to one feed interval, and it would aim the write at the
// deadline, where a preempted thread does the most harm. A grant renewed in time makes it
// useless, and one renewed late is served by the feed that follows starvation at once.
func (f *Feeder) step() time.Duration {
	l := &f.loop
	if !l.open {
		return f.interval
	}
	now := f.clock()
	if l.latest > 0 && !now.Before(l.attempt.Add(l.latest)) && !f.ranOut(now) {
		return f.interval
	}
	until := boottime.Instant(f.until.Load())
	if !now.Before(until) || f.sentenced() {
		f.setStatus(Starved)
		l.next = 0
		if l.countdown == 0 || l.missed {
			return f.interval
		}
		return f.pause(now, l.attempt.Add(l.latest))
	}
	if now.Before(l.next) {
		return f.pause(now, min(l.next, until))
	}
	err := f.device.Feed()
	end := f.clock()
	if !end.Before(until) {
		f.metrics.lateFeeds.Add(1)
	}
	f.account(now, err)
	return f.pause(end, min(l.next, until))
}

// account books a feed that began at now.
func (f *Feeder) account(now boottime.Instant, err error) {
	l := &f.loop
	// A feed that failed may have reached the hardware nevertheless.
	l.attempt, l.missed = now, false
	if err != nil {
		f.metrics.feedErrors.Add(1)
		select {
		case f.errors <- err:
		default: // the reporter has not taken the one before
		}
		f.failing.Store(true)
		f.setStatus(Faulty)
		l.next = now.Add(l.cadence / 4)
		return
	}
	if l.countdown > 0 {
		left := l.countdown - now.Sub(boottime.Instant(f.lastFeed.Load()))
		f.slack.Store(int64(left))
		f.metrics.observe(left)
	}
	f.lastFeed.Store(int64(now))
	f.metrics.feeds.Add(1)
	l.next = now.Add(l.cadence)
	if l.unsound {
		f.setStatus(Faulty)
	} else {
		f.setStatus(Armed)
	}
	f.failing.Store(false)
}

// ranOut handles a countdown that passed unfed and says whether feeding may resume, which it may only if nothing was
// armed. A real driver may still reset the node, late, and the peers already count on it. One that has not done so by
// failedAfter is none.
func (f *Feeder) ranOut(now boottime.Instant) bool {
	l := &f.loop
	if f.dry == nil {
		if now.Sub(l.attempt) >= failedAfter(l.latest) {
			f.unfired.Store(true)
		}
		f.overdue.Store(true)
		f.setStatus(Faulty)
		return false
	}
	if !l.missed {
		l.missed = true
		f.dry.wouldReset()
	}
	l.next = 0
	return true
}

// failedAfter is how long after the last feed a watchdog is known not to have fired, given the latest time at which
// it fires.
//
// Invariant: by then twice the delay that a driver may have has passed. If a node says that its watchdog does not
// fire, and it is reset after all, nobody can prove its death by time.
func failedAfter(latest time.Duration) time.Duration { return latest + latest/50 + 2*time.Second }

// pause never exceeds the feed interval, so that nothing hangs on one lost wake-up.
func (f *Feeder) pause(now, until boottime.Instant) time.Duration {
	return max(shortestPause, min(until.Sub(now), f.interval))
}

// obey carries out what was asked for since the last time. It precedes each step, so
// that no feed follows a Disarm.
func (f *Feeder) obey() {
	r := f.request.Swap(nil)
	if r == nil {
		return
	}
	f.loop.wantArm = r.arm && !f.loop.open
	if !r.arm && !f.sentenced() {
		_ = f.disarm(r.reason) // reported through the state
	}
	f.obeyed.Store(r.number)
	f.signal()
}

func (f *Feeder) armIfPermitted() {
	if f.loop.wantArm && f.permitted() && !f.sentenced() {
		f.loop.wantArm = false
		f.arm()
	}
}

func (f *Feeder) permitted() bool {
	return f.clock().Before(boottime.Instant(f.until.Load()))
}

func (f *Feeder) plannedStop() error {
	l := &f.loop
	if f.sentenced() || l.open && f.dry == nil && (f.overdue.Load() || !f.permitted()) {
		return ErrStarved
	}
	l.wantArm = false
	if f.view.Load().status == Disarmed {
		return nil // and the reason given then stays valid
	}
	return f.disarm(ReasonPlannedStop)
}

func (f *Feeder) arm() {
	info, err := f.device.Arm(f.timeout)
	open := err == nil || watchdog.StillArmed(err)
	if err == nil {
		if err = f.unfit(info); err != nil {
			// Nobody relies on the countdown yet, so it may be taken back.
			if undo := f.device.Disarm(); undo != nil {
				err = &watchdog.StillArmedError{Cause: err, Disarm: undo}
			} else {
				open = false
			}
		}
	}
	v := view{open: open, info: info, err: err}
	if !open {
		f.publish(v, Faulty)
		return
	}
	now := f.clock()
	f.loop = loop{open: true, unsound: err != nil, countdown: info.Timeout, latest: info.Latest(), cadence: f.interval, attempt: now}
	f.lastFeed.Store(int64(now))
	if err == nil {
		f.publish(v, Armed)
		return
	}
	f.loop.cadence = min(f.interval, blindCadence)
	if left := info.Timeout - info.Pretimeout; left > 0 {
		f.loop.cadence = min(f.interval, left/3)
	}
	f.publish(v, Faulty)
}

// unfit says why a watchdog that armed well cannot serve as a fence.
func (f *Feeder) unfit(info watchdog.Info) error {
	if err := unbelieved(info.Driver); err != nil {
		return err
	}
	// Nodes that do not know this one's horizon wait for that of the latest driver that is known (LatestOfAny).
	if latest, most := info.Latest(), watchdog.LatestOfAny(watchdog.LongestTimeout); latest > most {
		return fmt.Errorf("%q fires %v after its last feed with a timeout of %v, as measured, more than %v: lower watchdog.timeout or use another driver",
			info.Identity, latest, info.Timeout, most)
	}
	if info.Timeout < 2*f.interval {
		return fmt.Errorf("%q took a timeout of %v instead of %v, less than two feed intervals of %v: raise watchdog.timeout or use another driver",
			info.Identity, info.Timeout, f.timeout, f.interval)
	}
	if info.Timeout-info.Pretimeout < 2*f.interval {
		return fmt.Errorf("%q has a pretimeout of %v, which leaves less than two feed intervals of %v before it takes the node down: lower it (wdctl --setpretimeout), or raise watchdog.timeout",
			info.Identity, info.Pretimeout, f.interval)
	}
	if !info.MagicClose && !info.NoWayOut {
		return fmt.Errorf("%q does not say that it knows the magic close, so a crash of the agent might disarm it, and it does not show nowayout in sysfs: load it with nowayout=1 if it is in /sys/class/watchdog, or use another driver", info.Identity)
	}
	return nil
}

func (f *Feeder) disarm(reason string) error {
	v := *f.view.Load()
	if f.loop.open {
		if err := f.device.Disarm(); err != nil {
			v.err = err
			v.info.NoWayOut = v.info.NoWayOut || errors.Is(err, watchdog.ErrNoWayOut)
			f.publish(v, v.status)
			return err
		}
	}
	f.loop = loop{}
	v.open, v.reason, v.err = false, reason, nil
	f.publish(v, Disarmed)
	f.overdue.Store(false)
	f.failing.Store(false)
	return nil
}
