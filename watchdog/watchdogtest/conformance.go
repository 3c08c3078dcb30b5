package watchdogtest

import (
	"errors"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Rig is a device for the conformance suite, with functions to control its surroundings. Running and Left observe the
// countdown from outside; they are nil for a device that never arms.
type Rig struct {
	Device watchdog.Device
	// Advance advances the clock.
	Advance func(time.Duration)
	// Running reports whether the countdown runs.
	Running func() bool
	// Left returns the remaining time of the countdown.
	Left func() time.Duration
	// FailFeeds makes feeds fail until it is called with nil; nil if they cannot fail.
	FailFeeds func(error)
	// Hold lets another process hold the device; nil if the device cannot be held.
	Hold func()
}

// Driver describes the driver that a rig has to imitate.
type Driver struct{ NoWayOut bool }

// Conform runs the suite. open returns a new rig for each case; it skips the test if it cannot imitate the driver.
// Conform does not need a bubble.
func Conform(t *testing.T, open func(t *testing.T, d Driver) Rig) {
	for _, c := range []struct {
		name   string
		driver Driver
		run    func(*testing.T, Rig)
	}{
		{"arm reads the timeout back", Driver{}, armReadsBack},
		{"feed restarts the countdown", Driver{}, feedRestarts},
		{"feed does not allocate", Driver{}, feedDoesNotAllocate},
		{"feed before arm is refused", Driver{}, feedBeforeArm},
		{"disarm stops the countdown for good", Driver{}, disarmStops},
		{"disarm twice is harmless", Driver{}, disarmTwice},
		{"arm again after disarm", Driver{}, armAgain},
		{"a second arm is refused and changes nothing", Driver{}, armTwice},
		{"a failed feed neither disarms nor feeds", Driver{}, failedFeed},
		{"a busy device is not armed", Driver{}, busy},
		{"nowayout refuses to disarm and can still be fed", Driver{NoWayOut: true}, noWayOut},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t, c.driver)) })
	}
}

const wished = 10 * time.Second

func mustArm(t *testing.T, r Rig) watchdog.Info {
	t.Helper()
	info, err := r.Device.Arm(wished)
	if err != nil {
		t.Fatalf("Arm: %v", err)
	}
	return info
}

// expect checks the countdown from outside, if the device has one.
func expect(t *testing.T, r Rig, running bool, left time.Duration) {
	t.Helper()
	if r.Running == nil {
		return
	}
	if got := r.Running(); got != running {
		t.Fatalf("countdown running: %v, want %v", got, running)
	}
	if running && r.Left() != left {
		t.Fatalf("left of the countdown: %v, want %v", r.Left(), left)
	}
}

func armReadsBack(t *testing.T, r Rig) {
	expect(t, r, false, 0)
	info := mustArm(t, r)
	if info.Timeout < wished || info.Identity == "" {
		t.Fatalf("Info %+v, want an identity and a timeout of at least %v", info, wished)
	}
	expect(t, r, true, info.Timeout)
}

func feedRestarts(t *testing.T, r Rig) {
	info := mustArm(t, r)
	for range 3 {
		r.Advance(info.Timeout - time.Second)
		expect(t, r, true, time.Second)
		if err := r.Device.Feed(); err != nil {
			t.Fatalf("Feed: %v", err)
		}
		expect(t, r, true, info.Timeout)
	}
	r.Advance(info.Timeout)
	expect(t, r, false, 0)
}

func feedDoesNotAllocate(t *testing.T, r Rig) {
	mustArm(t, r)
	if n := testing.AllocsPerRun(100, func() { _ = r.Device.Feed() }); n != 0 {
		t.Errorf("%v allocations per feed", n)
	}
	if r.FailFeeds == nil {
		return
	}
	r.FailFeeds(errInjected)
	if n := testing.AllocsPerRun(100, func() { _ = r.Device.Feed() }); n != 0 {
		t.Errorf("%v allocations per failing feed", n)
	}
}

func feedBeforeArm(t *testing.T, r Rig) {
	if r.Running == nil {
		t.Skip("never armed")
	}
	if err := r.Device.Feed(); err == nil {
		t.Fatal("Feed of an unarmed device returned no error")
	}
	expect(t, r, false, 0)
}

func disarmStops(t *testing.T, r Rig) {
	mustArm(t, r)
	if err := r.Device.Disarm(); err != nil {
		t.Fatalf("Disarm: %v", err)
	}
	expect(t, r, false, 0)
	if err := r.Device.Feed(); err == nil && r.Running != nil {
		t.Fatal("Feed after Disarm returned no error")
	}
	expect(t, r, false, 0)
}

func disarmTwice(t *testing.T, r Rig) {
	mustArm(t, r)
	for range 2 {
		if err := r.Device.Disarm(); err != nil {
			t.Fatalf("Disarm: %v", err)
		}
	}
}

func armAgain(t *testing.T, r Rig) {
	mustArm(t, r)
	if err := r.Device.Disarm(); err != nil {
		t.Fatalf("Disarm: %v", err)
	}
	info := mustArm(t, r)
	expect(t, r, true, info.Timeout)
	if err := r.Device.Feed(); err != nil {
		t.Fatalf("Feed: %v", err)
	}
}

func armTwice(t *testing.T, r Rig) {
	if r.Running == nil {
		t.Skip("never armed")
	}
	info := mustArm(t, r)
	r.Advance(time.Second)
	if _, err := r.Device.Arm(2 * wished); err == nil {
		t.Fatal("a second Arm returned no error")
	}
	expect(t, r, true, info.Timeout-time.Second)
	if err := r.Device.Feed(); err != nil {
		t.Fatalf("Feed: %v", err)
	}
	expect(t, r, true, info.Timeout)
}

var errInjected = errors.New("injected")

func failedFeed(t *testing.T, r Rig) {
	if r.FailFeeds == nil {
		t.Skip("feeds cannot fail")
	}
	info := mustArm(t, r)
	r.Advance(time.Second)
	r.FailFeeds(errInjected)
	if err := r.Device.Feed(); err == nil {
		t.Fatal("the failing Feed returned no error")
	}
	expect(t, r, true, info.Timeout-time.Second)
	r.FailFeeds(nil)
	if err := r.Device.Feed(); err != nil {
		t.Fatalf("Feed: %v", err)
	}
	expect(t, r, true, info.Timeout)
}

func busy(t *testing.T, r Rig) {
	if r.Hold == nil {
		t.Skip("cannot be held")
	}
	r.Hold()
	if _, err := r.Device.Arm(wished); err == nil {
		t.Fatal("Arm of a held device returned no error")
	}
	if err := r.Device.Feed(); err == nil {
		t.Fatal("Feed of a held device returned no error")
	}
	expect(t, r, false, 0)
}

func noWayOut(t *testing.T, r Rig) {
	info := mustArm(t, r)
	if !info.NoWayOut {
		t.Fatalf("Info %+v, want NoWayOut", info)
	}
	r.Advance(time.Second)
	if err := r.Device.Disarm(); err == nil {
		t.Fatal("Disarm under nowayout returned no error")
	}
	expect(t, r, true, info.Timeout-time.Second)
	if err := r.Device.Feed(); err != nil {
		t.Fatalf("Feed: %v", err)
	}
	expect(t, r, true, info.Timeout)
}
