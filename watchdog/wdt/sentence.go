package wdt

import (
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Condemn takes the right to feed away for good: from now on nothing feeds, arms or disarms the watchdog, whatever is asked for,
// and its timeout becomes that one. The state that comes of it is Condemned, and has the timeout as the driver read it back. It
// cannot be taken back, and only the first call counts.
func (f *Feeder) Condemn(timeout time.Duration) {
	f.condemned.CompareAndSwap(0, int64(max(timeout, 1)))
	f.poke()
}

// sentenced reports whether the feeder was condemned. It comes before everything that the feeder does.
func (f *Feeder) sentenced() bool { return f.condemned.Load() != 0 }

// execute carries the sentence out, once, on the feeder's goroutine: so it comes after a feed that was under way. What is
// not known for certain is not told: neither a timeout that the driver did not take, nor one that was never set.
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
	began := f.clock()
	got, err := f.device.Shorten(time.Duration(f.condemned.Load()))
	switch {
	case err != nil:
		v.err = fmt.Errorf("condemned, and the peers have to wait for the watchdog: %w", err)
	case got > watchdog.MaxSentence:
		v.err = fmt.Errorf("condemned, and the peers have to wait for the watchdog: the driver took a timeout of %v, at most %v can be told", got, watchdog.MaxSentence)
	default:
		v.sentence, v.err = got, nil
		l.countdown, l.attempt = watchdog.SentenceBound(got), began // a node that outlives this is Faulty (P9)
	}
	f.publish(v, Starved)
}
