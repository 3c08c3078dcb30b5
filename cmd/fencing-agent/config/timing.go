package config

import (
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Timing is a set of defaults for the keys that enter the time budget.
type Timing string

const (
	TimingFast    Timing = "fast"    // quick local storage, hardware watchdog, quiet hosts
	TimingDefault Timing = "default" // survives a path failover of a few seconds
	TimingCareful Timing = "careful" // slow iSCSI: survives a TCP timeout and a login
	TimingWAN     Timing = "wan"     // slow or lossy networks; storage and watchdog as in default
	TimingADR     Timing = "adr"     // the founding text's table of intervals; the rest as in default
)

// Timings lists the timings that differ in more than gossip, the quickest first.
func Timings() []Timing { return []Timing{TimingFast, TimingDefault, TimingCareful} }

func (Timing) values() []string { return []string{"fast", "default", "careful", "wan", "adr"} }

// profile is the set of gossip parameters of a timing.
func (t Timing) profile() netgossip.Profile {
	switch t {
	case TimingFast:
		return netgossip.ProfileFast
	case TimingCareful, TimingWAN:
		return netgossip.ProfileCalm
	case TimingADR:
		return netgossip.ProfileADR
	default:
		return netgossip.ProfileAuto
	}
}

// timed is a default that a timing sets. A value in the file takes precedence.
type timed struct {
	key string
	set func(*Config)
}

// defaults lists the values that the timing sets where they differ from those of [Default], which has those of the
// timing default. Where the LUN rules, the watchdog's timeout and the time between feedings only make the death of a
// crashed node later ([Config.lunRules]). They are shorter there, by what hosts stand still for (docs/adr/0024).
func (t Timing) defaults(lunRules bool) []timed {
	of := func(heartbeat, io, sentence time.Duration) []timed {
		return []timed{
			{"lun.heartbeatInterval", func(c *Config) { c.LUN.HeartbeatInterval = heartbeat }},
			{"lun.ioTimeout", func(c *Config) { c.LUN.IOTimeout = io }},
			{"experimental.selfFenceAfter", func(c *Config) { c.Watchdog.SentenceAfter = sentence }},
		}
	}
	fed := func(timeout, feed time.Duration) []timed {
		return []timed{
			{"watchdog.timeout", func(c *Config) { c.Watchdog.Timeout = timeout }},
			{"experimental.feedInterval", func(c *Config) { c.Watchdog.FeedInterval = feed }},
		}
	}
	switch {
	case t == TimingCareful:
		return of(2*time.Second, 5*time.Second, 10*time.Second)
	case t == TimingFast && lunRules:
		return append(of(250*time.Millisecond, 500*time.Millisecond, 1500*time.Millisecond), fed(4*time.Second, 500*time.Millisecond)...)
	case t == TimingFast:
		return append(of(250*time.Millisecond, 500*time.Millisecond, 1500*time.Millisecond), fed(5*time.Second, time.Second)...)
	case lunRules:
		return fed(10*time.Second, time.Second)
	default:
		return nil
	}
}

// lunRules reports whether the LUN decides, and not the watchdog's timeout, how long an outage this node survives: a
// node that lost to others condemns itself after a time of its own, an equal split is granted, and while nobody lives
// all hold. Without any of that, a node starves until its watchdog fires, and a shorter timeout would reset it in
// outages that it survives. With lun.mode and a node starves for the loss of its LUN alone, too. A dry run is judged as
// if it armed the watchdog: it shows what would be.
func (c *Config) lunRules() bool {
	return c.lunBreaksTies() && c.LUN.Hold && c.LUN.Mode != LUNAnd &&
		c.OnQuorumLoss == LossFence && c.Watchdog.SelfFence != SelfFenceNone
}

// applyTiming fills the keys that are not in the file, according to given.
func (c *Config) applyTiming(given func(key string) bool) {
	c.Gossip.Profile = c.Timing.profile()
	for _, d := range c.Timing.defaults(c.lunRules()) {
		if !given(d.key) {
			d.set(c)
		}
	}
}

// applyExperimental uses the values in experimental instead of those that follow from other keys, and derives the rest.
// If watchdog.timeout is too short for the timing's feed interval, the interval becomes shorter. A feed interval from
// the file is not changed, and is refused if it does not fit.
func (c *Config) applyExperimental() {
	w, e := &c.Watchdog, &c.Experimental
	override(&w.FeedInterval, e.FeedInterval)
	if e.FeedInterval == nil && 2*w.FeedInterval >= w.Timeout {
		w.FeedInterval = w.Timeout / 5
	}
	override(&w.SentenceAfter, e.SelfFenceAfter)
	if w.SelfFence == SelfFenceNone {
		w.SentenceAfter = 0
	}
}

// ForTiming is the default configuration with a timing, n members and, if lun is set, a LUN, for the table of times.
func ForTiming(t Timing, n int, lun bool) *Config {
	c := Default()
	c.Timing = t
	if lun {
		c.LUN.Devices = []string{"/dev/mapper/fence"}
	}
	c.applyTiming(func(string) bool { return false })
	c.Members.Static = make([]Member, n)
	return c
}
