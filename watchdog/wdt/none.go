package wdt

import (
	"sync/atomic"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

var _ watchdog.Device = (*None)(nil)

// None is the watchdog of a dry run (driver none): it is never armed, a feed is only
// counted, and instead of resetting the node the [Feeder] notes when it would have been
// reset. The zero None is ready. It may be inspected from any goroutine.
type None struct {
	feeds  atomic.Uint64
	resets atomic.Uint64
}

// Arm pretends that a driver took the timeout exactly.
func (n *None) Arm(timeout time.Duration) (watchdog.Info, error) {
	return watchdog.Info{Driver: watchdog.Driver{Identity: "none (dry run)"}, Timeout: timeout, MagicClose: true}, nil
}

// Feed counts.
func (n *None) Feed() error {
	n.feeds.Add(1)
	return nil
}

// Shorten is refused: there is no countdown that peers could rely on.
func (n *None) Shorten(time.Duration) (time.Duration, error) { return 0, errNotArmed }

// Look implements watchdog.Looker: nothing counts down.
func (n *None) Look() (watchdog.Countdown, bool) { return watchdog.Countdown{}, true }

// Disarm always works, there being nothing to disarm.
func (n *None) Disarm() error { return nil }

// Feeds is the number of feeds a real watchdog would have got.
func (n *None) Feeds() uint64 { return n.feeds.Load() }

// Resets is the number of times a watchdog would have reset the node.
func (n *None) Resets() uint64 { return n.resets.Load() }

// wouldReset marks a device without a watchdog; the Feeder calls it from its thread.
func (n *None) wouldReset() { n.resets.Add(1) }

// dryRun is how the Feeder distinguishes a None from a device that is really armed.
type dryRun interface{ wouldReset() }
