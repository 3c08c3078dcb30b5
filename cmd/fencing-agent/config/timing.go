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

// defaults lists the values that the timing sets. The timing default has the values of [Default].
func (t Timing) defaults() []timed {
	of := func(heartbeat, io, timeout, feed, sentence time.Duration) []timed {
		return []timed{
			{"lun.heartbeatInterval", func(c *Config) { c.LUN.HeartbeatInterval = heartbeat }},
			{"lun.ioTimeout", func(c *Config) { c.LUN.IOTimeout = io }},
			{"watchdog.timeout", func(c *Config) { c.Watchdog.Timeout = timeout }},
			{"experimental.feedInterval", func(c *Config) { c.Watchdog.FeedInterval = feed }},
			{"experimental.selfFenceAfter", func(c *Config) { c.Watchdog.SentenceAfter = sentence }},
		}
	}
	switch t {
	case TimingFast:
		return of(250*time.Millisecond, 500*time.Millisecond, 5*time.Second, time.Second, 1500*time.Millisecond)
	case TimingCareful:
		return of(2*time.Second, 5*time.Second, 30*time.Second, 5*time.Second, 10*time.Second)
	default:
		return nil
	}
}

// applyTiming fills the keys that are not in the file, according to given.
func (c *Config) applyTiming(given func(key string) bool) {
	c.Gossip.Profile = c.Timing.profile()
	for _, d := range c.Timing.defaults() {
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

// ForTiming is the default configuration with a timing and n members, for the table of times.
func ForTiming(t Timing, n int) *Config {
	c := Default()
	c.Timing = t
	c.applyTiming(func(string) bool { return false })
	c.Members.Static = make([]Member, n)
	return c
}
