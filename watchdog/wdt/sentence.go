package wdt

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Condemn takes the right to feed away for good: from now on nothing feeds, arms or disarms the watchdog, whatever is asked for,
// and its timeout becomes that one. The resulting state is Condemned, and has the timeout as read back from the
// driver. It cannot be taken back, and only the first call counts.
func (f *Feeder) Condemn(timeout time.Duration) {
	f.condemned.CompareAndSwap(0, int64(max(timeout, 1)))
	f.poke()
}

// sentenced reports whether the feeder was condemned. It comes before everything that the feeder does.
func (f *Feeder) sentenced() bool { return f.condemned.Load() != 0 }

// execute carries the sentence out, once, on the feeder's goroutine: so it comes after a feed that was under way.
// Only a certain timeout is announced: neither one that the driver did not accept, nor one that was never set.
func (f *Feeder) execute() {
	l := &f.loop
	if l.judged || !f.sentenced() {
		return
	}
	l.judged = true
	v := *f.view.Load()
	v.condemned = true
	if !l.open {
		v.err = fmt.Errorf("condemned: %w", errNotArmed)
		f.publish(v, v.status)
		return
	}
	began, got, err := f.shorten(time.Duration(f.condemned.Load()))
	if began > 0 {
		l.attempt = began // a call that failed may have fed the watchdog nevertheless
	}
	if got > 0 {
		v.info.Timeout = got
	}
	told := v.info.Latest() // the announced time is the latest at which it fires (P3)
	switch {
	case err != nil:
		v.err = fmt.Errorf("the self-fence is not announced, and the peers have to wait for the watchdog: %w", err)
	case told > watchdog.MaxSentence:
		v.err = fmt.Errorf("the self-fence is not announced, and the peers have to wait for the watchdog: the driver took a timeout of %v and fires within %v, at most %v can be announced", got, told, watchdog.MaxSentence)
	default:
		v.sentence, v.err = told, nil
		l.countdown = watchdog.SentenceBound(told) // a node that outlives this is Faulty (P9)
		l.latest = l.countdown
	}
	f.publish(v, Starved)
}

// shorten asks the driver for the timeout, and for the next longer one while it refuses: iTCO_wdt takes no less than 3 s. began
// is when a call began that the driver did not refuse, which may be a feed; 0: there was none.
//
// Invariant: the sentence does not prolong the life of this boot past the horizon that peers know, which allows for
// two countdowns after the last feed. A node may condemn itself late, just before that countdown ends.
func (f *Feeder) shorten(timeout time.Duration) (began boottime.Instant, got time.Duration, err error) {
	end, driver := f.loop.attempt.Add(2*f.loop.latest), f.view.Load().info.Driver
	for ; timeout <= watchdog.MaxSentence; timeout += time.Second {
		now := f.clock()
		if now.Add(watchdog.SentenceBound(driver.Latest(timeout))) > end {
			return 0, 0, errors.Join(err, fmt.Errorf("%w of %v", errTooLate, timeout))
		}
		if got, err = f.device.Shorten(timeout); !errors.Is(err, watchdog.ErrRefused) {
			return now, got, err
		}
	}
	return 0, 0, err
}
