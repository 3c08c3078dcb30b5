package wdt

import (
	"strconv"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Status is the state of the feeder.
type Status uint8

const (
	Unarmed  Status = iota + 1 // nothing was opened, or an Arm waits for a grant
	Armed                      // counting down and fed
	Starved                    // counting down, permission to feed has ended
	Disarmed                   // stopped on purpose, see State.Reason
	Faulty                     // see State.Err; State.Armed says whether the countdown runs
)

var statusNames = [...]string{Unarmed: "unarmed", Armed: "armed", Starved: "starved", Disarmed: "disarmed", Faulty: "faulty"}

// String is the stable name used in logs and metrics.
func (s Status) String() string {
	if s >= Unarmed && int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "status(" + strconv.Itoa(int(s)) + ")"
}

// State is a snapshot of a [Feeder]. Status, Armed, Info and Reason belong together; the
// rest is read while the feeder runs on and may be one feed newer.
type State struct {
	Status Status
	// Armed says that a countdown really runs. Peers may rely on it if Info.Timeout is
	// known, too. It is never true in a dry run, whatever Status says.
	Armed  bool
	DryRun bool
	// Info is what the driver said when it was last armed. With Armed, Info.Timeout is the
	// timeout that counts; zero if it could not be read back.
	Info   watchdog.Info
	Reason string // why it was disarmed
	// Condemned says that nothing feeds, arms or disarms the watchdog any more, ever. Sentence is the timeout that
	// was set then, as read back; 0: unknown, see Err.
	Condemned bool
	Sentence  time.Duration
	// Unfired says that the watchdog has counted down unfed and did not fire, for good: another feed or arming does not make it one
	// that does.
	Unfired bool
	// Obeyed is the number of the latest Arm or Disarm that was carried out, refused, or made
	// needless by a later one. The rest of the state is not older.
	Obeyed uint64
	Err    error            // why it is Faulty, or why the last Arm, Disarm or feed failed
	Until  boottime.Instant // end of the permission to feed
	// LastFeed is the start of the last feed that worked, or of the countdown if none did.
	LastFeed boottime.Instant
	// Slack is what was left of the countdown at the last feed; negative after failed feeds.
	Slack      time.Duration
	Feeds      uint64
	FeedErrors uint64
	// LateFeeds counts feeds that were permitted when they began and ended after the permission.
	LateFeeds uint64
}

// view is what changes together, so that it is published with one store.
type view struct {
	status Status
	open   bool // armed as far as the feeder is concerned, dry run included
	info   watchdog.Info
	reason string
	err    error

	condemned bool
	sentence  time.Duration
}

// views holds the view for every status that the feed path may have to switch to, made
// beforehand, where allocating does no harm. Once published it is immutable.
type views [Faulty + 1]view

// State may be called from any goroutine.
func (f *Feeder) State() State {
	obeyed := f.obeyed.Load() // before the view, which is stored first
	v := f.view.Load()
	s := State{
		Obeyed:     obeyed,
		Status:     v.status,
		Armed:      v.open && f.dry == nil,
		DryRun:     f.dry != nil,
		Info:       v.info,
		Reason:     v.reason,
		Err:        v.err,
		Condemned:  v.condemned,
		Unfired:    f.unfired.Load(),
		Sentence:   v.sentence,
		Until:      boottime.Instant(f.until.Load()),
		LastFeed:   boottime.Instant(f.lastFeed.Load()),
		Slack:      time.Duration(f.slack.Load()),
		Feeds:      f.metrics.feeds.Load(),
		FeedErrors: f.metrics.feedErrors.Load(),
		LateFeeds:  f.metrics.lateFeeds.Load(),
	}
	// The feeder sets these two before the status that they explain, and clears them after.
	switch {
	case v.status == Faulty && f.overdue.Load():
		s.Err = errOverdue
	case (v.status == Faulty || v.status == Starved) && f.failing.Load():
		if p := f.feedError.Load(); p != nil {
			s.Err = *p
		}
	}
	return s
}

// publish makes v the view, at status s. It allocates, so it is not for the feed path.
func (f *Feeder) publish(v view, s Status) {
	live := v.open && f.dry == nil
	f.metrics.armed.Store(live)
	f.metrics.timeout.Store(0)
	if live {
		f.metrics.timeout.Store(int64(v.info.Timeout))
	}
	f.views = new(views)
	for i := range f.views {
		f.views[i] = v
		f.views[i].status = Status(i)
	}
	f.view.Store(&f.views[s])
	f.signal()
}

// setStatus is publish for the feed path: it only changes the status. Faulty is reported again each time, since its
// error may have changed.
func (f *Feeder) setStatus(s Status) {
	next := &f.views[s]
	if f.view.Swap(next) != next || s == Faulty {
		f.signal()
	}
}

func (f *Feeder) signal() {
	select {
	case f.changed <- struct{}{}:
	default: // the reporter will see what was stored before
	}
}
