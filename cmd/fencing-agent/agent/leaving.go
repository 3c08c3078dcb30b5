package agent

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// leaving is a planned stop.
type leaving struct {
	by       boottime.Instant // the stop ends then, however many peers know of it
	nudge    boottime.Instant // the stop is announced again then
	answered boottime.Instant // when every counted peer had answered the announcement
	waits    bool             // the stop waits until the peers know of it
	lingers  bool             // the stop waits for the watchdog to fire
}

// sayAgain repeats the announcement of the stop, and returns when to do so next. A peer that missed the announcement
// because of a lost packet or two would call this node LEFT.
func (a *Agent) sayAgain(now boottime.Instant) boottime.Instant {
	if now >= a.leaving.nudge {
		a.leaving.nudge = now.Add(max(minStopWord, a.roundTime()))
		a.gossip.Announce()
	}
	return a.leaving.nudge
}

// mayLeave reports whether the process may exit as planned. While the watchdog counts down unfed, it must not exit. The
// kernel restarts the countdown when the descriptor is closed, so a node that its peers count as dead would live for
// one more timeout. Nor may it disarm before enough peers know of the stop: they would call the running node dead.
func (a *Agent) mayLeave() bool {
	s := a.guard.feeder.State()
	switch {
	case !s.Armed:
		return true
	case s.Status != wdt.Starved:
		if !a.core.Released() && !a.leaving.waits {
			a.leaving.waits = true
			a.log.Warn("this node is not leaving yet: first a majority must know that the watchdog will be disarmed", "timeout", s.Info.Timeout)
		}
		return a.core.Released()
	}
	if !a.leaving.lingers {
		a.leaving.lingers = true
		a.log.Error("this node is not leaving: permission to feed has ended and the watchdog is about to reset this node; leaving would only delay it",
			"timeout", s.Info.Timeout, "last_feed_age", a.clock().Sub(s.LastFeed))
	}
	return false
}

// stopKnown reports whether a planned stop is known to the LUN and, by an answered or sent
// statement, to the peers.
func (a *Agent) stopKnown(now boottime.Instant) bool {
	arb, said := a.core.Arbiter(), a.leaving.by.Add(-a.stopPatience())
	heard := a.answeredSince(now, said)
	return (arb == nil || arb.Stopped()) && now >= said.Add(a.stopNudge()) && a.core.Released() && heard
}

// answeredSince reports whether every counted peer has answered since the stop was announced, and has had the time to
// ask for the announcement: otherwise a peer whose machine is busy would call this node LEFT.
func (a *Agent) answeredSince(now, said boottime.Instant) bool {
	for i := range a.core.View().Counted.All() {
		if i == a.roster.Self {
			continue
		}
		if _, anchor := a.core.Merger().Statement(i); anchor <= said {
			return false
		}
	}
	if a.leaving.answered == 0 {
		a.leaving.answered = now
	}
	return now >= a.leaving.answered.Add(2*minStopWord)
}

// minStopWord is the least time between two announcements of a stop. In a large group an announcement goes to one peer
// after the other, and the next announcement starts again with the first peer. It must not start before the last peer
// has been reached.
const minStopWord = 100 * time.Millisecond

// stopNudge is the time in which a repeated announcement reaches every reachable peer, even if a fifth of the packets
// is lost: of five announcements on two networks, fewer than one in a thousand lead to no answer. In a large group it
// reaches every peer twice.
func (a *Agent) stopNudge() time.Duration { return 5*minStopWord + 2*a.roundTime() }

// roundTime is how long one announcement takes at most.
func (a *Agent) roundTime() time.Duration {
	n := a.roster.Size()
	return a.cfg.ParamsFor(n).RoundTime(n)
}

func (a *Agent) stopPatience() time.Duration { return 2*a.cfg.LUN.HeartbeatInterval + a.stopNudge() }
