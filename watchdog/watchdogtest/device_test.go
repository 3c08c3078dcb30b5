package watchdogtest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// manual is a clock that only advances when it is set.
type manual struct{ now boottime.Instant }

func newManual() *manual                  { return &manual{now: 1000} }
func (m *manual) read() boottime.Instant  { return m.now }
func (m *manual) advance(d time.Duration) { m.now = m.now.Add(d) }

func TestConformance(t *testing.T) {
	Conform(t, func(t *testing.T, dr Driver) Rig {
		clock := newManual()
		d := New(Config{Clock: clock.read, NoWayOut: dr.NoWayOut})
		return Rig{
			Device: d, Advance: clock.advance, Running: d.Running, FailFeeds: d.FailFeeds,
			Hold: func() { d.SetBusy("sbd") },
			Left: func() time.Duration { return d.last.Add(d.timeout).Sub(clock.now) },
		}
	})
}

func TestTimeoutIsRounded(t *testing.T) {
	clock := newManual()
	for _, c := range []struct {
		granularity, limit, wish, want time.Duration
	}{
		{0, 0, 2500 * time.Millisecond, 3 * time.Second},
		{600 * time.Millisecond, 0, 2 * time.Second, 2400 * time.Millisecond},
		{0, 5 * time.Second, time.Minute, 5 * time.Second},
	} {
		info, err := New(Config{Clock: clock.read, Granularity: c.granularity, MaxTimeout: c.limit}).Arm(c.wish)
		if err != nil || info.Timeout != c.want {
			t.Errorf("Arm(%v) at granularity %v: %v, %v, want %v", c.wish, c.granularity, info.Timeout, err, c.want)
		}
	}
}

func TestFiringIsFinal(t *testing.T) {
	clock := newManual()
	d := New(Config{Clock: clock.read})
	if _, err := d.Arm(3 * time.Second); err != nil {
		t.Fatal(err)
	}
	armed := clock.now
	clock.advance(10 * time.Second)
	_ = d.Feed()
	_ = d.Disarm()
	_, err := d.Arm(3 * time.Second)
	at, fired := d.FiredAt()
	if !fired || at != armed.Add(3*time.Second) || d.Running() || err == nil {
		t.Fatalf("fired %v at %v, running %v, arm %v; want it to stay fired since 3s after arming", fired, at, d.Running(), err)
	}
	if s := d.Stats(); s.AfterFire != 3 {
		t.Errorf("AfterFire %d, want 3", s.AfterFire)
	}
}

// The kernel restarts the countdown once more if an armed device is closed without the magic character, but a driver
// without magic close stops it. This decides whether a crash fences the node.
func TestKill(t *testing.T) {
	for _, c := range []struct {
		name    string
		config  Config
		running bool
	}{
		{"magic close", Config{}, true},
		{"nowayout", Config{NoWayOut: true, NoMagic: true}, true},
		{"neither", Config{NoMagic: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newManual()
			c.config.Clock = clock.read
			d := New(c.config)
			if _, err := d.Arm(3 * time.Second); err != nil {
				t.Fatal(err)
			}
			clock.advance(2 * time.Second)
			d.Kill()
			clock.advance(2 * time.Second)
			if got := d.Running(); got != c.running {
				t.Fatalf("running 4s after arming: %v, want %v", got, c.running)
			}
			if _, err := d.Arm(3 * time.Second); err != nil {
				t.Fatalf("Arm by the next process: %v", err)
			}
		})
	}
}

func TestFailedArm(t *testing.T) {
	cause := errors.New("no read-back")
	for _, noWayOut := range []bool{false, true} {
		d := New(Config{Clock: newManual().read, NoWayOut: noWayOut})
		d.FailArm(cause)
		_, err := d.Arm(3 * time.Second)
		if !errors.Is(err, cause) || watchdog.StillArmed(err) != noWayOut || d.Running() != noWayOut {
			t.Errorf("nowayout %v: %v, running %v", noWayOut, err, d.Running())
		}
	}
}

func TestOnFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clock := func() boottime.Instant { return boottime.Instant(1 + time.Since(start)) }
		fired := make(chan boottime.Instant, 2)
		d := New(Config{Clock: clock, OnFire: func(at boottime.Instant) { fired <- at }})
		if _, err := d.Arm(3 * time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if err := d.Feed(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if at := <-fired; at != clock().Add(-57*time.Second) || len(fired) != 0 {
			t.Errorf("fired at %v (%d more), want 3s after the feed", at, len(fired))
		}
	})
}
