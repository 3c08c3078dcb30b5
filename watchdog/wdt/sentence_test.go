package wdt

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/watchdogtest"
)

// Guard: P2. A condemned feeder feeds, arms and disarms nothing, whatever it is asked for, and tells the timeout that the driver
// took.
func TestCondemnedFeeder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, watchdogtest.Config{}, nil)
		b.Grant(b.clock().Add(time.Hour))
		b.Arm()
		time.Sleep(3 * testInterval)
		feeds := b.device.Stats().Feeds
		b.Condemn(time.Second)
		synctest.Wait()
		if s := b.State(); !s.Condemned || s.Sentence != time.Second || s.Status != Starved || s.Info.Timeout != time.Second || b.metrics.timeout.Load() != int64(time.Second) {
			t.Fatalf("%+v", s)
		}
		b.Grant(b.clock().Add(time.Hour))
		b.Disarm("a test")
		synctest.Wait() // of a Disarm and an Arm that follows at once, the Arm would count
		b.Arm()
		b.Condemn(3 * time.Second) // the first counts
		if err := b.Stop(context.Background()); !errors.Is(err, ErrStarved) {
			t.Errorf("Stop: %v", err)
		}
		time.Sleep(900 * time.Millisecond)
		if s := b.device.Stats(); s.Feeds != feeds || s.Disarms != 0 || s.Arms != 1 || s.Shortened != 1 || s.Broken != 0 {
			t.Errorf("%+v, %d feeds before", s, feeds)
		}
		time.Sleep(100 * time.Millisecond)
		if at, fired := b.device.FiredAt(); !fired || at != b.clock() {
			t.Errorf("fired %v at %v, now %v", fired, at, b.clock())
		}
		if b.mu.Lock(); !b.states[len(b.states)-1].Condemned {
			t.Errorf("nobody was told: %+v", b.states)
		}
		b.mu.Unlock()
		time.Sleep(3 * time.Second) // P9: it lives on, so the driver has not done what it said
		if s := b.State(); s.Status != Faulty {
			t.Errorf("%+v", s)
		}
	})
}

// Guard: P2, P3. What the driver did not take is not told.
func TestDriverThatDoesNotTakeASentence(t *testing.T) {
	for name, c := range map[string]watchdogtest.Config{
		"refuses": {Refuses: true}, "rounds": {Granularity: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := run(t, c, nil)
				b.Grant(b.clock().Add(time.Hour))
				b.Arm()
				synctest.Wait()
				feeds := b.device.Stats().Feeds
				b.Condemn(time.Second)
				time.Sleep(2 * testInterval)
				if s := b.State(); !s.Condemned || s.Sentence != 0 || s.Err == nil || b.device.Stats().Feeds > feeds {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// Guard: P2. A driver that takes no timeout as short as that, such as iTCO_wdt, is asked for the next longer one, up to what may be
// told. What it takes is told.
func TestDriverWithALeastTimeout(t *testing.T) {
	for least, want := range map[int]time.Duration{2: 2 * time.Second, 3: 3 * time.Second, 4: 0} {
		synctest.Test(t, func(t *testing.T) {
			d := softdog()
			dev := d.device(t)
			d.sysfs(t, dev, nil)
			b := run(t, watchdogtest.Config{}, dev)
			b.Grant(b.clock().Add(time.Hour))
			b.Arm()
			synctest.Wait()
			d.accept = func(s int) bool { return s >= least }
			b.Condemn(time.Second)
			synctest.Wait()
			if s := b.State(); !s.Condemned || s.Sentence != want || (s.Err == nil) != (want > 0) {
				t.Errorf("at least %d s: %+v, want %v", least, s, want)
			}
		})
	}
}

// Guard: P3. Peers know since the last feed when this node is dead. A new countdown that might outlive that is not begun.
func TestSentenceThatComesLate(t *testing.T) {
	for name, c := range map[string]struct {
		least, after, want time.Duration
	}{
		"early":           {0, 1500 * time.Millisecond, 2 * time.Second},
		"late":            {0, 3500 * time.Millisecond, 0},
		"raised, in time": {3 * time.Second, 500 * time.Millisecond, 3 * time.Second},
		"raised, late":    {3 * time.Second, 1500 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := run(t, watchdogtest.Config{MaxTimeout: 4 * time.Second, Least: c.least}, nil)
				b.Grant(b.clock().Add(testInterval / 2))
				b.Arm()
				synctest.Wait()
				fed := b.State().LastFeed
				time.Sleep(c.after)
				b.Condemn(2 * time.Second)
				time.Sleep(100 * time.Millisecond)
				if s := b.State(); !s.Condemned || s.Sentence != c.want || (b.device.Stats().Shortened > 0) != (c.want > 0) {
					t.Errorf("%+v, %+v; want %v", s, b.device.Stats(), c.want)
				}
				time.Sleep(10 * time.Second)
				if at, fired := b.device.FiredAt(); !fired || at > fed.Add(8*time.Second) {
					t.Errorf("fired %v at %v, fed at %v", fired, at, fed)
				}
			})
		})
	}
}

// A timeout that was set and cannot be read back has fed the watchdog: it is not overdue before that countdown is over.
func TestSentenceThatCannotBeReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, watchdogtest.Config{Garbles: true}, nil)
		b.Grant(b.clock().Add(testInterval / 2))
		b.Arm()
		time.Sleep(testTimeout - time.Second)
		b.Condemn(time.Second)
		time.Sleep(testTimeout - time.Second)
		if s := b.State(); !s.Condemned || s.Sentence != 0 || s.Status != Starved || errors.Is(s.Err, errOverdue) {
			t.Errorf("%+v", s)
		}
		time.Sleep(2 * time.Second)
		if s := b.State(); s.Status != Faulty || !errors.Is(s.Err, errOverdue) {
			t.Errorf("%+v", s)
		}
	})
}

// A feeder that has nothing armed arms nothing after it.
func TestCondemnedBeforeItIsArmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, watchdogtest.Config{}, nil)
		b.Condemn(time.Second)
		b.Grant(b.clock().Add(time.Hour))
		b.Arm()
		time.Sleep(testInterval)
		if s := b.State(); !s.Condemned || s.Sentence != 0 || s.Armed || b.device.Stats().Arms != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Guard: P2. The timeout is read back, and so is what is left, where the driver tells.
func TestShorten(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*driver)
		sysfs  bool
		want   time.Duration
	}{
		"softdog":                            {func(*driver) {}, true, time.Second},
		"rounds":                             {func(d *driver) { d.round = func(s int) int { return max(s, 4) } }, true, 4 * time.Second},
		"refuses":                            {func(d *driver) { d.accept = func(s int) bool { return s > 5 } }, true, 0},
		"cannot be read":                     {func(d *driver) { d.getErr = unix.EIO }, true, 0},
		"counts on with what was left":       {func(d *driver) { d.stale = true }, true, 0},
		"does not tell what is left":         {func(d *driver) { d.leftErr = unix.EOPNOTSUPP }, true, time.Second},
		"an old one, does not tell":          {func(d *driver) { d.leftErr = unix.ENOTTY }, false, 0},
		"an old one that tells what is left": {func(*driver) {}, false, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			d := softdog()
			dev := d.device(t)
			if c.sysfs {
				d.sysfs(t, dev, nil)
			}
			if _, err := dev.Arm(10 * time.Second); err != nil {
				t.Fatal(err)
			}
			c.change(d)
			got, err := dev.Shorten(time.Second)
			if got != c.want || (err == nil) != (c.want > 0) || errors.Is(err, watchdog.ErrRefused) != (name == "refuses") {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
	if _, err := softdog().device(t).Shorten(time.Second); err == nil {
		t.Error("a device that is not open was made shorter")
	}
}

// Guard: P2'. The kernel says whether this boot is condemned, and then the device is not opened: that would be another countdown.
func TestLook(t *testing.T) {
	for name, c := range map[string]struct {
		extra     map[string]string
		known     bool
		condemned bool
	}{
		"idle":            {nil, true, false},
		"counts down":     {map[string]string{"state": "active", "timeout": "30"}, true, false},
		"condemned":       {map[string]string{"state": "active", "timeout": "2"}, true, true},
		"idle, short":     {map[string]string{"timeout": "2"}, true, false},
		"without a state": {map[string]string{"state": ""}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := softdog()
			dev := d.device(t)
			d.sysfs(t, dev, c.extra)
			got, known := dev.Look()
			if known != c.known || got.Condemns(10*time.Second) != c.condemned || got.Condemns(watchdog.MaxSentence) {
				t.Errorf("%+v, %v", got, known)
			}
			if _, err := dev.Arm(10 * time.Second); errors.Is(err, watchdog.ErrCondemned) != c.condemned || c.condemned && len(d.calls) > 0 {
				t.Errorf("Arm: %v, calls %v", err, d.calls)
			}
		})
	}
	if _, known := softdog().device(t).Look(); known {
		t.Error("known without sysfs")
	}
}
