package watchdog

import (
	"maps"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// guarding is what the watchdog does, what peers are told of it, and what asks for it to be given up.
type guarding struct {
	cfg *Config   // of the core
	end *sentence // of this node's own boot

	disarm   map[string]string // why, by source
	stopping bool
	granted  bool // ties are decided by a grant, of the LUN or of another tie-breaker
	guard    netgossip.Guard
	driver   string        // what the watchdog's driver calls itself
	set      time.Duration // the watchdog's timeout as read back, which may be less than that of guard
	unfired  bool          // the watchdog of this boot was seen not to fire
	release  release
	arming   bool // the watchdog is to be armed, and too few know of this agent
}

// SetDisarm raises the disarm signal of a source, and says why in words for people; "" lowers it. Any raised
// one disarms. The core knows no source but the list of members: a new one is another caller of this.
func (g *guarding) SetDisarm(source, why string) {
	if why != "" {
		g.disarm[source] = why
	} else {
		delete(g.disarm, source)
	}
}

// DisarmedBy is why each of the disarm signals is raised, in the order of their sources' names.
func (g *guarding) DisarmedBy() []string {
	var why []string
	for _, source := range slices.Sorted(maps.Keys(g.disarm)) {
		why = append(why, g.disarm[source])
	}
	return why
}

// Stop begins the planned stop: disarm, say so to the peers, stop arbitrating. In a condemned boot nothing does that.
func (g *guarding) Stop() { g.stopping = !g.end.condemned }

// SetDriver notes what the watchdog's driver calls itself. From the next SetGuard on peers are told when it fires at the latest.
func (g *guarding) SetDriver(identity string) { g.driver = identity }

// SetGuard notes what the watchdog will do, as read back from the driver.
//
// Invariant: what peers are told, and what this node reckons with for itself, is when the watchdog has fired at the latest (L9). By when it
// may fire at the earliest it is only fed.
func (g *guarding) SetGuard(armed bool, timeout time.Duration) {
	if g.end.condemned {
		return // what was stated before stands: peers reckon with it who know of no sentence
	}
	g.release.yielded, g.set = false, timeout
	g.guard = netgossip.Guard{
		Armed: armed, Fences: g.cfg.OnLoss == LossFence, Leases: g.granted && !g.cfg.LUNLostAsksAPI, Timeout: Latest(g.driver, timeout),
	}
	g.bound()
}

// GuardFailed says that the watchdog of this boot has counted down unfed and did not fire in time, for good: what it does after that
// has no horizon, whether it is armed again or not. So nobody takes this boot for dead by time or by a sentence (L9, P9).
func (g *guarding) GuardFailed() {
	g.unfired = true
	g.bound()
}

// bound makes the horizon that of the budget. Before the watchdog was armed for the first time it
// is that of the timeout which will be asked for: a grant may come first. It is none while a
// countdown runs whose length the driver does not tell.
func (g *guarding) bound() {
	switch {
	case g.unfired:
		g.guard.Horizon = 0
	case g.guard.Timeout > 0:
		g.guard.Horizon = g.cfg.Budget.WithWatchdog(g.guard.Timeout).Horizon()
	case g.guard.Armed:
		g.guard.Horizon = 0
	default:
		g.guard.Horizon = g.cfg.Budget.Horizon()
	}
}

// disarmAsked reports whether something asks for the disarmed watchdog.
func (g *guarding) disarmAsked() bool {
	if g.end.condemned {
		return false // there is nothing left to give up
	}
	return g.stopping || len(g.disarm) > 0
}

// wantsDisarm reports whether this node is giving its guard up, and says so.
func (g *guarding) wantsDisarm() bool { return g.disarmAsked() && g.release.announced != 0 }

// Releasing reports whether the node waits for its peers' statements to say that they know, or to live so that it may tell them.
func (g *guarding) Releasing() bool { return g.disarmAsked() && !g.release.done }

// leaving reports whether others are told of a planned stop.
func (g *guarding) leaving() bool { return g.stopping && g.wantsDisarm() }

// Released reports whether the watchdog may be disarmed for a planned stop: nobody relies
// on it, or enough others know that it is given up.
func (g *guarding) Released() bool { return g.release.done }

// statedGuard is what the peers are told of the guard. What was given up is not claimed
// again before the feeder has said what became of it.
func (g *guarding) statedGuard() netgossip.Guard {
	said := g.guard
	said.Armed = said.Armed && !g.wantsDisarm() && !g.release.yielded
	return said
}

// Arming reports whether the watchdog is to be armed and waits for the word of the peers that they know of
// this agent.
func (g *guarding) Arming() bool { return g.arming }

// briefly reports whether the watchdog can count down a sentence: its ordinary timeout is longer than one may be, or the next agent
// could not tell them apart by what the kernel shows; and its driver does not fire so late that what may be told does not cover it (P3).
func (g *guarding) briefly() bool {
	return g.set > netgossip.MaxSentence && shortest(g.driver, g.cfg.Sentence.Timeout) <= netgossip.MaxSentence
}
