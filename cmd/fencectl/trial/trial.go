package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog/calibration"
)

// Device is a watchdog that no process holds and that does not count down.
type Device interface {
	// Arm starts the countdown. After an error other than StillArmedError the countdown does not run.
	Arm(timeout time.Duration) (Info, error)
	// Disarm stops the countdown.
	Disarm() error
}

// Info is what the driver reports.
type Info struct {
	Identity string
	Timeout  time.Duration // read back
	NoWayOut bool
}

// StillArmedError is an error of Arm after which the countdown still runs.
type StillArmedError struct{ error }

func (e StillArmedError) Unwrap() error { return e.error }

// ErrCalledOff means that the trial was ended early, and that nothing resets the machine now.
var ErrCalledOff = errors.New("called off: the watchdog is disarmed")

// Patience is how long after due a watchdog may still fire: drivers count in ticks, and some warn first.
const Patience = 30 * time.Second

// due is when the watchdog must have fired. It is the latest known time of its driver, and at least twice its timeout:
// some boards count down twice, and it is not known which. If a watchdog were disarmed that would still have fired, it
// would be called broken, and its delay would stay unknown.
func (t *Trial) due(info Info) time.Duration {
	due := 2 * info.Timeout
	if t.Latest != nil {
		due = max(due, t.Latest(info.Identity, info.Timeout))
	}
	return due
}

// Record is the record of a trial on disk.
type Record interface {
	// Ran records that the machine still runs this long after the last feed, and how long the previous call took.
	Ran(after, took time.Duration) error
	// Close ends the record of a trial that ended without a reset.
	Close(calibration.End) error
	// Leave ends the recording, and not the trial: the watchdog counts down.
	Leave() error
}

// every is the time between two lines during the countdown.
const every = 10 * time.Second

// Trial is one test of a watchdog.
type Trial struct {
	Device Device
	Name   string
	// Identity is what the driver calls itself according to sysfs; empty: unknown.
	Identity string
	Timeout  time.Duration
	Say      func(line string)
	// Last records what is about to happen, before the watchdog is armed; an error ends the trial. Failed withdraws it.
	Last   func() error
	Failed func(why string)
	// Latest is when a watchdog of that driver is known to have fired at the latest; nil: when its timeout passes.
	Latest func(identity string, timeout time.Duration) time.Duration
	// Keep begins the record of what happens, before the watchdog is armed and again with what the driver reports. After
	// a reset, only that record shows when the watchdog fired.
	Keep func(Info) (Record, error)
	Sync func() // writes what file systems have not written yet
	Now  func() time.Time
}

// Run returns only if the machine was not reset. The watchdog is then disarmed, or the error says that it is not.
//
// Invariant: what is about to happen is on record before the watchdog counts down.
func (t *Trial) Run(ctx context.Context) error {
	if err := t.Last(); err != nil {
		return err
	}
	t.Sync()
	// Whatever resets the machine from here on, the next boot finds a trial: one that is repeated would reset it again.
	before, err := t.Keep(Info{Identity: t.Identity, Timeout: t.Timeout})
	if err != nil {
		t.Failed("the test could not be recorded")
		return fmt.Errorf("cannot record the test: %w", err)
	}
	if ctx.Err() != nil {
		t.Failed("the test of the watchdog was called off")
		return errors.Join(ErrCalledOff, before.Close(calibration.CalledOff))
	}
	info, err := t.Device.Arm(t.Timeout)
	if err != nil {
		if still := new(StillArmedError); errors.As(err, still) {
			return errors.Join(fmt.Errorf("%s: %w; the watchdog counts down and resets the node within its timeout", t.Name, err), before.Leave())
		}
		t.Failed("the watchdog could not be armed")
		return errors.Join(fmt.Errorf("%s: %w", t.Name, err), before.Close(calibration.CalledOff))
	}
	armed := t.Now()
	record, err := t.Keep(info) // with what the driver reports
	if err != nil {
		disarmed, err := t.ended("the test could not be recorded", fmt.Errorf("cannot record how late the watchdog fires: %w", err))
		if !disarmed {
			return errors.Join(err, before.Leave())
		}
		return errors.Join(err, before.Close(calibration.CalledOff))
	}
	if err := before.Leave(); err != nil {
		t.Say(fmt.Sprintf("cannot close the first record: %v", err))
	}
	t.Say(fmt.Sprintf("%s (%s) is armed with %v and is not fed any more: it resets this node at about %s",
		t.Name, info.Identity, info.Timeout, armed.Add(info.Timeout).Format(time.TimeOnly)))
	if t.Latest != nil {
		if late := t.Latest(info.Identity, info.Timeout); late > info.Timeout {
			t.Say(fmt.Sprintf("this driver is known to fire late: at about %s at the latest, which the agent takes into account", armed.Add(late).Format(time.TimeOnly)))
		}
	}
	if info.NoWayOut {
		t.Say("nowayout is set: this can no longer be called off")
	} else {
		t.Say("Ctrl-C before that time disarms it")
	}
	unkept := make(chan error, 1) // closed when nothing is recorded any more
	marking, stop := context.WithCancel(context.Background())
	go func() {
		defer close(unkept)
		if err := t.mark(marking, record, armed); err != nil {
			unkept <- fmt.Errorf("cannot record that this node still runs: %w", err)
		}
	}()
	limit := t.due(info) + Patience
	off := t.count(ctx, info, armed, limit, unkept)
	stop()
	if off != nil {
		disarmed, err := t.ended("the test of the watchdog was called off", off) // at once, since the disk may be slow
		for range unkept {
		}
		if !disarmed { // it goes on: the reset is the watchdog's
			return errors.Join(err, record.Leave())
		}
		return errors.Join(err, record.Close(calibration.CalledOff))
	}
	for range unkept {
	}
	if err := record.Close(calibration.Failed); err != nil {
		t.Say(fmt.Sprintf("cannot record that the watchdog did not reset the node: %v", err))
	}
	_, err = t.ended("the watchdog did not reset the node in a test", fmt.Errorf("%s (%s) did NOT reset this node within %v, with a timeout of %v; do not rely on it: look for another driver, or for what feeds it",
		t.Name, info.Identity, limit, info.Timeout))
	return err
}

// count prints how much time is left, until the limit. It returns why the trial was called off; nil: it was not.
func (t *Trial) count(ctx context.Context, info Info, armed time.Time, limit time.Duration, unkept <-chan error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	end := time.NewTimer(limit)
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return ErrCalledOff
		case err := <-unkept: // the result of the test would be lost
			return err
		case <-end.C:
			return nil
		case <-tick.C:
			if left := info.Timeout - t.Now().Sub(armed); left > 0 {
				t.Say(fmt.Sprintf("%v are left", left.Round(time.Second)))
			} else {
				t.Say(fmt.Sprintf("the watchdog is late by %v; do not reset this node by hand: that would count as the watchdog's reset", (-left).Round(time.Second)))
			}
		}
	}
}

// mark records that the machine still runs. A disk that hangs does not delay anything else.
func (t *Trial) mark(ctx context.Context, record Record, armed time.Time) error {
	tick := time.NewTicker(calibration.Every)
	defer tick.Stop()
	var took time.Duration
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		began := t.Now()
		if err := record.Ran(began.Sub(armed), took); err != nil {
			return err
		}
		took = t.Now().Sub(began)
	}
}

// ended disarms the watchdog, withdraws what was about to happen, and returns err. If the countdown cannot be stopped,
// nothing is withdrawn, and the error says so.
func (t *Trial) ended(why string, err error) (disarmed bool, _ error) {
	if cause := t.Device.Disarm(); cause != nil {
		return false, errors.Join(err, fmt.Errorf("the watchdog cannot be disarmed, and may still reset this node: %w", cause))
	}
	t.Failed(why)
	return true, err
}
