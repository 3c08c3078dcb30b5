// Package boottime is the one clock of the project: CLOCK_BOOTTIME, which unlike CLOCK_MONOTONIC (and so unlike
// time.Now's monotonic reading) goes on counting while the machine is suspended. Every deadline on which a reset
// depends is an Instant of this clock; instants of different machines are never compared.
//
// The pure packages take instants as arguments and never read the clock. Only Linux has this clock: elsewhere fencectl
// builds, which does not read it, and no agent runs.
package boottime

import "time"

// Instant is a reading of CLOCK_BOOTTIME in nanoseconds since the machine booted.
// The zero Instant means "never": no event of this boot carries it.
type Instant int64

// Never is later than every instant that can occur.
const Never Instant = 1<<63 - 1

// Add returns i+d, saturating at Never so that "no deadline" stays "no deadline".
func (i Instant) Add(d time.Duration) Instant {
	if i == Never || (d > 0 && i > Never-Instant(d)) {
		return Never
	}
	return i + Instant(d)
}

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Before reports whether i is earlier than j.
func (i Instant) Before(j Instant) bool { return i < j }

// IsZero reports whether i is the "never happened" value.
func (i Instant) IsZero() bool { return i == 0 }

// Clock reads the present instant. The agent is handed one; tests hand in virtual time.
type Clock func() Instant
