package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/api/trouble"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// lockRetry is the time between two attempts to get the lock of an agent that may have been killed.
const lockRetry = 100 * time.Millisecond

// beginSentence finds out, before anybody is counted, whether an earlier agent has condemned this boot (lease.md P2').
// The kernel shows it: the running countdown is as short as a sentence's. If that cannot be read, the agent waits.
func (a *Agent) beginSentence(background spawn) {
	blind := false
	if a.opts.Watchdog != nil || a.cfg.Watchdog.Driver != config.DriverNone {
		c, known := a.guard.look()
		switch {
		case known && c.Condemns(a.cfg.Watchdog.Timeout):
			a.inherit(c)
		case !known, c.Running && c.Timeout <= watchdog.MaxSentence:
			// The countdown cannot be read, or cannot be distinguished from this configuration's own.
			blind = true
			a.core.Blind()
			a.log.Info("cannot see whether this boot has announced its self-fence: nobody is counted until the previous agent is gone and its countdown is over",
				"wait", watchdog.MaxSentence+time.Second)
		}
	}
	background(func(ctx context.Context) { a.holdLock(ctx, blind) })
}

// inherit continues as the agent of a condemned boot.
func (a *Agent) inherit(c watchdog.Countdown) {
	a.core.Inherit(a.clock(), c.Timeout)
	a.log.Error("a previous agent has announced the self-fence of this boot: the watchdog's countdown is short, and nothing feeds the watchdog any more", "timeout", c.Timeout)
}

// holdLock holds the lock that marks a running agent, and reports when it has it. When an agent is killed, the kernel
// releases its lock when it closes that agent's watchdog.
//
// Invariant: the lock is not released before the watchdog is closed. The next agent assumes that this agent's last
// countdown began when the lock became free (P2'), and an exit can hang. So an agent with a real watchdog never
// releases the lock itself.
func (a *Agent) holdLock(ctx context.Context, needed bool) {
	t := time.NewTicker(lockRetry)
	defer t.Stop()
	told := false
	for {
		release, ok, err := func() {}, a.guard.locked, error(nil)
		if !ok {
			release, ok, err = statefile.Lock(a.cfg.LockFile())
		}
		switch {
		case ok:
			a.published.parts.Note(lockPart, nil)
			a.guard.alone.Store(true)
			a.box.put(func(b *batch) { b.alone = true })
			if a.opts.Watchdog != nil { // in a test, several agents run in one process
				<-ctx.Done()
				release()
			}
			return
		case err != nil:
			a.published.parts.Note(lockPart, fmt.Errorf("%w; make the folder of members.cacheFile writable for the agent", err))
			if needed && !told {
				told = true
				a.log.Error("nobody is counted: cannot see whether the previous agent is gone", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// sentenced handles the feeder's report about a self-fence.
func (a *Agent) sentenced(s *wdt.State) {
	switch {
	case s.Condemned:
		if _, told, _ := a.core.Condemned(); told == 0 && s.Sentence == 0 && !a.guard.mute {
			a.guard.mute = true
			a.log.Error("this node fences itself without announcing it, since it is not certain when the watchdog will reset the node", "error", s.Err)
		}
		a.core.Sentenced(s.Sentence)
		a.published.at = 0 // this node may be reset before the next second
	case errors.Is(s.Err, watchdog.ErrCondemned):
		if c, known := a.guard.look(); known && c.Condemns(a.cfg.Watchdog.Timeout) {
			a.inherit(c)
		}
	}
}

// condemn takes the permission away from the feeder for good, before everything else that a step requires. by names the
// node that ordered it, if it was ordered.
func (g *guard) condemn(fx *watchdog.Effects, by string) bool {
	if fx.Condemn == 0 {
		return false
	}
	if !g.condemned {
		g.condemned = true
		g.deadline.Store(0)
		g.feeder.Condemn(fx.Condemn)
		why := "this node has lost for certain, and announces its self-fence: the other nodes go on without it, and nothing feeds its watchdog any more"
		if by != "" {
			why = "this node obeys a fence order, and announces its self-fence: the other nodes go on without it, and nothing feeds its watchdog any more"
		}
		g.log.Error(why, "timeout", fx.Condemn, "by", by)
	}
	return true
}

// look reads the kernel's countdown.
func (g *guard) look() (c watchdog.Countdown, known bool) {
	if l, ok := g.dev.(watchdog.Looker); ok {
		return l.Look()
	}
	return c, false
}

// barTexts describes what keeps nodes from condemning themselves although they should.
var barTexts = map[watchdog.Bar]string{
	watchdog.BarWatchdog: "watchdog.timeout is no longer than the countdown of a self-fence may be, or the watchdog's driver fires too late for one",
}

// noteBar logs when this node becomes unable to condemn itself, and when it is able again.
func (a *Agent) noteBar(now boottime.Instant) {
	began, ended := a.guard.bar.note(now, barTexts[a.core.Barred()], a.cfg.ArbitrationBudget())
	switch {
	case ended:
		trouble.NoSelfFence.Ended(a.log)
	case began != "":
		trouble.NoSelfFence.Log(a.log, "reason", began)
	}
}
