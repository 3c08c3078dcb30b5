package wdt

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/watchdogtest"
)

func TestNewFeederRefuses(t *testing.T) {
	good := Config{Device: &None{}, Clock: boottime.Now, Timeout: 5 * time.Second, FeedInterval: 2 * time.Second}
	if _, err := NewFeeder(good); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*Config){
		"no device":        func(c *Config) { c.Device = nil },
		"no clock":         func(c *Config) { c.Clock = nil },
		"no interval":      func(c *Config) { c.FeedInterval = 0 },
		"interval too big": func(c *Config) { c.Timeout = 4 * time.Second },
	} {
		c := good
		edit(&c)
		if _, err := NewFeeder(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, watchdogtest.Config{}, nil)
		synctest.Wait()
		if err := b.Run(t.Context()); err == nil {
			t.Error("a second Run returned no error")
		}
	})
}

// Guard: unfit, and that nobody relies on an unfit device.
func TestUnfitDriversAreDisarmed(t *testing.T) {
	for name, driver := range map[string]watchdogtest.Config{
		"timeout shorter than two feeds":      {MaxTimeout: 3 * time.Second},
		"pretimeout within two feeds":         {Pretimeout: 7 * time.Second},
		"a crash would disarm (no magic 'V')": {NoMagic: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := armed(t, driver, time.Hour)
				if s := b.expect(Faulty, false); s.Err == nil || b.device.Running() {
					t.Errorf("error %v, running %v", s.Err, b.device.Running())
				}
				if len(b.history()) != 0 {
					t.Errorf("fed at %v", b.history())
				}
			})
		})
	}
}

func TestRoundedTimeoutCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{Granularity: 7 * time.Second}, 3*time.Second)
		if s := b.expect(Armed, true); s.Info.Timeout != 14*time.Second {
			t.Fatalf("timeout %v", s.Info.Timeout)
		}
		time.Sleep(15900 * time.Millisecond) // fed at 2s: alive until 16s by the driver's timeout
		b.expect(Starved, true)
		b.grant(time.Minute)
		b.expect(Armed, true)
	})
}

// What cannot be disarmed has to be fed, at a rhythm that fits it, though it stays Faulty.
func TestUnfitWithoutAWayOutIsFed(t *testing.T) {
	for _, c := range []struct {
		name    string
		driver  watchdogtest.Config
		cadence time.Duration
	}{
		{"short timeout", watchdogtest.Config{NoWayOut: true, MaxTimeout: 3 * time.Second}, time.Second},
		{"no magic close is fine then", watchdogtest.Config{NoWayOut: true, NoMagic: true}, testInterval},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := armed(t, c.driver, time.Hour)
				time.Sleep(time.Minute)
				want := Faulty
				if c.cadence == testInterval {
					want = Armed
				}
				b.expect(want, true)
				feeds := b.history()
				if !b.device.Running() || feeds[1].Sub(feeds[0]) != c.cadence {
					t.Errorf("running %v, fed at %v, want every %v", b.device.Running(), feeds, c.cadence)
				}
				b.Grant(0)
				b.expect(Starved, true)
			})
		})
	}
}

func TestFailedArmIsToldAndRepeatable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, watchdogtest.Config{}, nil)
		b.device.SetBusy("systemd")
		b.grant(time.Hour)
		b.Arm()
		if s := b.expect(Faulty, false); !errors.Is(s.Err, watchdog.ErrBusy) {
			t.Errorf("error %v", s.Err)
		}
		b.device.SetBusy("")
		time.Sleep(time.Minute)
		b.expect(Faulty, false) // no attempt without being asked
		b.Arm()
		if s := b.expect(Armed, true); s.Err != nil {
			t.Errorf("error %v", s.Err)
		}
	})
}

// Guard: stillArmed, and the blind cadence for a timeout that is not known.
func TestFailedArmThatCannotBeUndoneIsFed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, watchdogtest.Config{NoWayOut: true}, nil)
		b.device.FailArm(unix.EIO)
		b.grant(time.Minute)
		b.Arm()
		if s := b.expect(Faulty, true); !errors.Is(s.Err, unix.EIO) {
			t.Errorf("error %v", s.Err)
		}
		time.Sleep(time.Minute - 1)
		if !b.device.Running() {
			t.Fatal("not fed")
		}
		time.Sleep(time.Minute)
		b.expectFired()
	})

	synctest.Test(t, func(t *testing.T) {
		d := softdog()
		d.nowayout, d.getErr = true, unix.EIO
		b := run(t, watchdogtest.Config{}, d.device(t))
		b.grant(time.Minute)
		b.Arm()
		s := b.expect(Faulty, true)
		if s.Info.Timeout != 0 {
			t.Fatalf("timeout %v, want unknown", s.Info.Timeout)
		}
		time.Sleep(10*time.Second + 1)
		if n := b.State().Feeds; n != 21 {
			t.Errorf("%d blind feeds in 10s, want 21", n)
		}
	})
}

// What the driver reveals only when it is asked to stop, the core has to learn.
func TestNoWayOutIsLearnt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := softdog()
		d.nowayout = true
		b := run(t, watchdogtest.Config{}, d.device(t)) // no sysfs
		b.grant(time.Hour)
		b.Arm()
		if b.expect(Armed, true).Info.NoWayOut {
			t.Error("nowayout known beforehand: the test shows nothing")
		}
		b.Disarm("maintenance")
		if s := b.expect(Armed, true); !s.Info.NoWayOut || !errors.Is(s.Err, watchdog.ErrNoWayOut) {
			t.Errorf("%+v", s)
		}
	})
}

// A watchdog that did not fire is given up, but an operator may replace its driver.
func TestArmAgainAfterOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := softdog() // its clock stands still, so it never fires
		b := run(t, watchdogtest.Config{}, d.device(t))
		b.grant(time.Second)
		b.Arm()
		time.Sleep(time.Minute)
		b.expect(Faulty, true)
		b.Disarm("replaced")
		if s := b.expect(Disarmed, false); s.Err != nil {
			t.Errorf("error %v", s.Err)
		}
		b.grant(time.Hour)
		b.Arm()
		time.Sleep(time.Minute)
		b.expect(Armed, true)
		if err := b.Stop(t.Context()); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
}

// The dry run arms nothing, says when a watchdog would have reset the node, and goes on.
func TestDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := &None{}
		b := run(t, watchdogtest.Config{}, none)
		b.grant(3 * time.Second)
		b.Arm()
		if s := b.expect(Armed, false); !s.DryRun || s.Info.Timeout != testTimeout {
			t.Errorf("%+v", s)
		}
		if b.metrics.armed.Load() || b.metrics.timeout.Load() != 0 {
			t.Error("the metrics call a dry run armed")
		}
		time.Sleep(2*time.Second + testTimeout - 1)
		b.expect(Starved, false)
		if none.Resets() != 0 {
			t.Fatal("would have reset before the timeout")
		}
		time.Sleep(2 * time.Nanosecond)
		if none.Resets() != 1 {
			t.Fatal("would not have reset at the timeout")
		}
		time.Sleep(time.Minute)
		if none.Resets() != 1 {
			t.Fatalf("would have reset %d times, want once", none.Resets())
		}
		fed := none.Feeds()
		b.grant(3 * time.Second)
		b.expect(Armed, false)
		if none.Feeds() != fed+1 {
			t.Errorf("%d feeds, want feeding to resume after %d", none.Feeds(), fed)
		}
		time.Sleep(time.Minute)
		if none.Resets() != 2 {
			t.Errorf("%d resets, want 2", none.Resets())
		}
		if err := b.Stop(t.Context()); err != nil {
			t.Errorf("Stop of a starved dry run: %v", err)
		}
	})
}

func TestDryRunEndsQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, watchdogtest.Config{}, &None{})
		b.grant(time.Hour)
		b.Arm()
		b.expect(Armed, false)
		b.cancel()
		if err := <-b.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// Guard: OnState runs on the reporter's goroutine.
func TestSlowOnStateDoesNotDelayFeeding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := softdog()
		start := time.Now()
		clock := func() boottime.Instant { return boottime.Instant(1 + time.Since(start)) }
		f, err := NewFeeder(Config{
			Device: d.device(t), Timeout: testTimeout, FeedInterval: testInterval, Clock: clock,
			OnState: func(State) { time.Sleep(time.Hour) },
		})
		if err != nil {
			t.Fatal(err)
		}
		go f.Run(t.Context())
		f.Grant(clock().Add(time.Minute))
		f.Arm()
		time.Sleep(time.Minute)
		if s := f.State(); s.Feeds != 30 {
			t.Errorf("%d feeds in 60s, want 30", s.Feeds)
		}
		if err := f.Stop(t.Context()); err == nil {
			t.Error("Stop of a starved feeder returned no error")
		}
		f.Disarm("end of test")
		<-time.After(2 * time.Hour)
	})
}

// Guard: every wish is answered, also one that changes nothing: the core says that the watchdog is
// given up until it hears what became of the disarm.
func TestEveryWishIsAnswered(t *testing.T) {
	for _, noWayOut := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := run(t, watchdogtest.Config{NoWayOut: noWayOut}, nil)
			last := func() State {
				synctest.Wait()
				b.mu.Lock()
				defer b.mu.Unlock()
				return b.states[len(b.states)-1]
			}
			b.grant(time.Hour)
			b.Arm()
			if s := last(); s.Obeyed != 1 || !s.Armed {
				t.Fatalf("armed: %+v", s)
			}
			asked := b.Disarm("maintenance")
			if s := last(); s.Obeyed != asked || s.Armed != noWayOut {
				t.Errorf("nowayout %v: disarm %d: %+v", noWayOut, asked, s)
			}
			b.Arm()
			if s := last(); s.Obeyed != asked+1 || !s.Armed {
				t.Errorf("nowayout %v: armed again: %+v", noWayOut, s)
			}
			asked = b.Disarm("a moment")
			b.Arm() // takes its place, unless the feeder was quicker
			if s := last(); s.Obeyed != asked+1 || !s.Armed {
				t.Errorf("nowayout %v: a disarm that was taken back: %+v", noWayOut, s)
			}
		})
	}
}
