package watchdog

import "time"

// Budget is the time budget of a node: from the moment a network or a node is lost to
// the moment others may rely on its death (design section 7, lease.md L8, L9).
type Budget struct {
	MaxAge    time.Duration // D_max: evidence older than this counts for nothing
	Sampling  time.Duration // until random samples find that a majority is gone; 0 where every peer is probed
	Voices    time.Duration // D_lun: a dated word on the LUN counts for so long; 0: for nothing (lun.mode: or)
	Arbitrate time.Duration // A: a tie may go on feeding undecided for this long; 0 without a tie-breaker
	Grant     time.Duration // G: a grant outlives its last landed write by this
	Feed      time.Duration // F: time between two feeds
	Watchdog  time.Duration // W: as read back from the driver
	// Release is R: what the death of a starved agent can add. The kernel restarts the
	// countdown once when the last descriptor of an armed watchdog is closed without the
	// magic character, which is what kill -9 and the OOM killer do.
	Release time.Duration
	Margin  time.Duration // rounding of drivers and timers
}

// WithWatchdog is the budget with the driver's own timeout in it.
func (b Budget) WithWatchdog(w time.Duration) Budget {
	b.Watchdog, b.Release = w, w
	return b
}

// evidence is how long a node may believe in a majority that is gone, by the networks or by the LUN.
func (b Budget) evidence() time.Duration { return max(b.MaxAge+b.Sampling, b.Voices) }

// Majority is the time after which a node that lost contact to a majority is dead:
// its samples, where it takes samples, are answered by chance for a while, its evidence runs
// out, it is fed at the last moment, its agent is killed at the last
// moment of the countdown, which begins once more, and its watchdog fires.
func (b Budget) Majority() time.Duration {
	return b.evidence() + b.Feed + b.Watchdog + b.Release + b.Margin
}

// Tie is the same for the losing half of an equal split.
func (b Budget) Tie() time.Duration {
	return max(b.evidence()+b.Arbitrate, b.Grant) + b.Feed + b.Watchdog + b.Release + b.Margin
}

// Horizon bounds the life of a node that nobody of a majority sees, however it lost its
// peers; it is what the node tells them.
func (b Budget) Horizon() time.Duration { return max(b.Majority(), b.Tie()) }
