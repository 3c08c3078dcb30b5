package watchdog

import "time"

// Budget is the time budget of a node: from the moment a network or a node is lost to
// the moment others may rely on its death (design section 7, lease.md L8, L9).
type Budget struct {
	MaxAge    time.Duration // D_max: evidence older than this counts for nothing
	Arbitrate time.Duration // A: a tie may go on feeding undecided for this long; 0 without a tie-breaker
	Grant     time.Duration // G: a grant outlives its last landed write by this
	Feed      time.Duration // F: time between two feeds
	Watchdog  time.Duration // W: as read back from the driver
	Margin    time.Duration // rounding of drivers and timers
}

// Majority is the time after which a node that lost contact to a majority is dead:
// its evidence runs out, it is fed at the last moment, its watchdog fires.
func (b Budget) Majority() time.Duration { return b.MaxAge + b.Feed + b.Watchdog + b.Margin }

// Tie is the same for the losing half of an equal split.
func (b Budget) Tie() time.Duration {
	return max(b.MaxAge+b.Arbitrate, b.Grant) + b.Feed + b.Watchdog + b.Margin
}
