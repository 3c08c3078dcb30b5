// Package boottime is the only clock of the project: CLOCK_BOOTTIME. Unlike CLOCK_MONOTONIC, and so unlike time.Now's
// monotonic reading, it goes on counting while the machine is suspended. Every deadline on which a reset depends is an
// Instant of this clock; instants of different machines are never compared.
//
// The pure packages take instants as arguments and never read the clock. Only Linux has this clock: on other systems no
// agent runs, but fencectl, which does not read the clock, can be built.
package boottime

import "time"

// Instant is a reading of CLOCK_BOOTTIME in nanoseconds since the machine booted. The zero Instant means "never
// happened": no event of this boot has it.
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

// Clock reads the present instant. It is injected into the agent; tests inject virtual time.
type Clock func() Instant
