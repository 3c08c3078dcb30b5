package wdt

import (
	"strconv"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Status is where the feeder stands.
type Status uint8

const (
	Unarmed  Status = iota + 1 // nothing was opened, or an Arm waits for a grant
	Armed                      // counting down and fed
	Starved                    // counting down, permission to feed has ended
	Disarmed                   // stopped on purpose, see State.Reason
	Faulty                     // see State.Err; State.Armed tells whether the countdown runs
)

var statusNames = [...]string{Unarmed: "unarmed", Armed: "armed", Starved: "starved", Disarmed: "disarmed", Faulty: "faulty"}

// String is the stable name used in logs and metrics.
func (s Status) String() string {
	if s >= Unarmed && int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "status(" + strconv.Itoa(int(s)) + ")"
}

// State is a snapshot of a [Feeder]. Its fields are read one after the other while the
// feeder runs on: each is right, two of them may be one feed apart.
type State struct {
	Status Status
	// Armed says that a countdown really runs. Peers may rely on it if Info.Timeout is
	// known, too. It is never true in a dry run, whatever Status says.
	Armed  bool
	DryRun bool
	// Info is what the driver said when it was last armed. With Armed, Info.Timeout is the
	// timeout that counts; zero if it could not be read back.
	Info   watchdog.Info
	Reason string           // why it was disarmed
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

// detail is the part of the state that changes with requests only. A new one is made for
// each change; a published one is immutable.
type detail struct {
	open   bool // armed as far as the feeder is concerned, dry run included
	info   watchdog.Info
	reason string
	err    error
}

// State may be called from any goroutine.
func (f *Feeder) State() State {
	d := f.detail.Load()
	s := State{
		Status:     Status(f.status.Load()),
		Armed:      d.open && f.dry == nil,
		DryRun:     f.dry != nil,
		Info:       d.info,
		Reason:     d.reason,
		Err:        d.err,
		Until:      boottime.Instant(f.until.Load()),
		LastFeed:   boottime.Instant(f.lastFeed.Load()),
		Slack:      time.Duration(f.slack.Load()),
		Feeds:      f.metrics.feeds.Load(),
		FeedErrors: f.metrics.feedErrors.Load(),
		LateFeeds:  f.metrics.lateFeeds.Load(),
	}
	if f.overdue.Load() {
		s.Err = errOverdue
	} else if p := f.feedError.Load(); p != nil && f.failing.Load() {
		s.Err = *p
	}
	return s
}
