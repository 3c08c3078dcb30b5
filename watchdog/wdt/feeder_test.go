package wdt

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/watchdogtest"
)

const (
	testTimeout  = 10 * time.Second
	testInterval = 2 * time.Second
)

// bench is a feeder that runs in a bubble, on virtual time.
type bench struct {
	*Feeder
	t      *testing.T
	device *watchdogtest.Device // nil with another device
	clock  boottime.Clock
	cancel context.CancelFunc
	ended  chan error

	mu     sync.Mutex
	feeds  []boottime.Instant // attempts
	states []State
}

// run must be called inside a bubble. The feeder ends with the bubble at the latest.
func run(t *testing.T, driver watchdogtest.Config, other watchdog.Device) *bench {
	t.Helper()
	start := time.Now()
	b := &bench{t: t, ended: make(chan error, 1)}
	b.clock = func() boottime.Instant { return boottime.Instant(1 + time.Since(start)) }
	driver.Clock = b.clock
	onFeed := driver.OnFeed
	driver.OnFeed = func(at boottime.Instant) {
		b.mu.Lock()
		b.feeds = append(b.feeds, at)
		b.mu.Unlock()
		if onFeed != nil {
			onFeed(at)
		}
	}
	device := other
	if device == nil {
		b.device = watchdogtest.New(driver)
		device = b.device
	}
	f, err := NewFeeder(Config{
		Device: device, Timeout: testTimeout, FeedInterval: testInterval, Clock: b.clock,
		OnState: func(s State) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.states = append(b.states, s)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Feeder = f
	ctx, cancel := context.WithCancel(t.Context())
	b.cancel = cancel
	go func() { b.ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-f.exited
	})
	return b
}

// armed arms with a grant of the given length and waits until that is done.
func armed(t *testing.T, driver watchdogtest.Config, grant time.Duration) *bench {
	t.Helper()
	b := run(t, driver, nil)
	b.grant(grant)
	b.Arm()
	synctest.Wait()
	return b
}

func (b *bench) grant(d time.Duration) boottime.Instant {
	until := b.clock().Add(d)
	b.Grant(until)
	return until
}

func (b *bench) history() []boottime.Instant {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]boottime.Instant(nil), b.feeds...)
}

func (b *bench) last() boottime.Instant {
	feeds := b.history()
	if len(feeds) == 0 {
		return 0
	}
	return feeds[len(feeds)-1]
}

func (b *bench) path() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for _, s := range b.states {
		names = append(names, s.Status.String())
	}
	// Whether the feeder says that it is unarmed before it is asked to arm is up to the scheduler.
	return strings.TrimPrefix(strings.Join(names, " "), Unarmed.String()+" ")
}

func (b *bench) expect(want Status, armed bool) State {
	b.t.Helper()
	synctest.Wait()
	s := b.State()
	if s.Status != want || s.Armed != armed {
		b.t.Fatalf("status %v (armed %v, err %v), want %v (armed %v)", s.Status, s.Armed, s.Err, want, armed)
	}
	return s
}

// expectFired says that the countdown ran out exactly one timeout after the last feed.
func (b *bench) expectFired() {
	b.t.Helper()
	at, fired := b.device.FiredAt()
	if want := b.last().Add(testTimeout); !fired || at != want {
		b.t.Fatalf("fired %v at %v, want %v, the timeout after the last feed", fired, at, want)
	}
	if s := b.device.Stats(); s.AfterFire != 0 || s.Unarmed != 0 {
		b.t.Errorf("%+v: calls after the reset or while unarmed", s)
	}
}

// Guard: the comparison of the clock with the grant in step. A feed at the deadline
// itself is one too many.
func TestFeedsOnlyBeforeTheGrantEnds(t *testing.T) {
	for _, length := range []time.Duration{7 * time.Second, 8 * time.Second} { // between two feeds, and on one
		synctest.Test(t, func(t *testing.T) {
			b := armed(t, watchdogtest.Config{}, length)
			until := b.clock().Add(length)
			time.Sleep(length)
			b.expect(Starved, true)
			time.Sleep(time.Minute)
			feeds := b.history()
			if len(feeds) != 4 || !b.last().Before(until) {
				t.Fatalf("fed at %v, want 4 times, 2s apart, before %v", feeds, until)
			}
			for i, at := range feeds[1:] {
				if at.Sub(feeds[i]) != testInterval {
					t.Errorf("fed at %v, want every %v", feeds, testInterval)
				}
			}
			b.expectFired()
		})
	}
}

// Guard: nothing but Grant moves the deadline.
func TestHungGranterStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{}, 3*time.Second)
		var until boottime.Instant
		for range 40 {
			until = b.grant(3 * time.Second)
			time.Sleep(500 * time.Millisecond)
		}
		b.expect(Armed, true)
		time.Sleep(time.Minute) // the granter hangs
		b.expectFired()
		if at, _ := b.device.FiredAt(); !at.Before(until.Add(testTimeout)) {
			t.Errorf("fired at %v, not within the timeout after the last grant, %v", at, until)
		}
	})
}

func TestWithdrawnGrantStopsFeeding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{}, time.Hour)
		time.Sleep(5 * time.Second)
		b.Grant(0)
		b.expect(Starved, true)
		fed := b.last()
		time.Sleep(time.Minute)
		if b.last() != fed {
			t.Errorf("fed at %v after the grant was withdrawn", b.last())
		}
		b.expectFired()
	})
}

// Guard: next is zeroed by starvation. Without it the node would wait for the old rhythm.
func TestShortStarvationIsFedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{}, 3*time.Second)
		time.Sleep(3500 * time.Millisecond) // the next feed would have been at 4s
		b.expect(Starved, true)
		b.grant(time.Minute)
		b.expect(Armed, true)
		if b.last() != b.clock() {
			t.Errorf("last fed at %v, want at once, %v", b.last(), b.clock())
		}
	})
}

func TestNewGrantIsFedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{}, 3*time.Second)
		time.Sleep(11900 * time.Millisecond) // fed at 0 and 2s, so 100ms are left
		b.expect(Starved, true)
		b.grant(time.Minute)
		s := b.expect(Armed, true)
		if b.last() != b.clock() || s.LastFeed != b.clock() || s.Slack != 100*time.Millisecond {
			t.Errorf("last fed at %v with slack %v, want at once, %v, with 100ms", s.LastFeed, s.Slack, b.clock())
		}
		time.Sleep(30 * time.Second)
		if !b.device.Running() {
			t.Error("fired although granted in time")
		}
		if got := b.path(); got != "armed starved armed" {
			t.Errorf("states %q", got)
		}
	})
}

// Guard: ranOut for a real device.
func TestNoFeedAfterTheCountdownRanOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{}, 3*time.Second)
		time.Sleep(12 * time.Second) // exactly the timeout after the feed at 2s
		b.grant(time.Hour)
		s := b.expect(Faulty, true)
		if !errors.Is(s.Err, errOverdue) {
			t.Errorf("error %v, want overdue", s.Err)
		}
		b.Arm()
		time.Sleep(time.Minute)
		b.expect(Faulty, true)
		b.expectFired()
		if err := b.Stop(t.Context()); !errors.Is(err, ErrStarved) {
			t.Errorf("Stop: %v, want ErrStarved: a restart must not rescue this node", err)
		}
	})
}

// A feeder that was frozen together with the granter finds a fresh grant when it wakes up,
// and must still not feed: its peers may have waited out the timeout.
func TestNoFeedAfterAFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{}, time.Hour)
		b.device.DelayFeeds(20 * time.Second) // one feed hangs
		time.Sleep(3 * time.Second)
		b.device.DelayFeeds(0)
		time.Sleep(20 * time.Second)
		if s := b.expect(Faulty, true); !errors.Is(s.Err, errOverdue) {
			t.Errorf("error %v, want overdue", s.Err)
		}
	})
}

// Guard: armIfPermitted.
func TestArmWaitsForAGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, watchdogtest.Config{}, nil)
		b.Arm()
		time.Sleep(time.Minute)
		b.expect(Unarmed, false)
		if n := b.device.Stats().Arms; n != 0 {
			t.Fatalf("armed %d times without a grant", n)
		}
		b.grant(time.Minute)
		b.expect(Armed, true)
		if b.last() != b.clock() {
			t.Errorf("last fed at %v, want at once after arming, %v", b.last(), b.clock())
		}
	})
}

// Guard: obey precedes step, and disarm clears loop.open.
func TestNoFeedAfterDisarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{}, time.Hour)
		time.Sleep(5 * time.Second)
		b.Disarm("maintenance")
		if s := b.expect(Disarmed, false); s.Reason != "maintenance" {
			t.Errorf("reason %q", s.Reason)
		}
		fed := b.last()
		b.grant(2 * time.Hour)
		time.Sleep(time.Hour)
		if b.last() != fed || b.device.Stats().Unarmed != 0 {
			t.Errorf("fed at %v after the disarm", b.last())
		}
		b.Arm()
		b.expect(Armed, true)
	})
}

func TestDisarmWhileStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{}, time.Second)
		time.Sleep(5 * time.Second)
		b.expect(Starved, true)
		b.Disarm("maintenance")
		b.expect(Disarmed, false)
		time.Sleep(time.Minute)
		if _, fired := b.device.FiredAt(); fired {
			t.Error("fired although disarmed on purpose")
		}
	})
}

func TestLastWishCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, watchdogtest.Config{}, nil)
		b.grant(time.Hour)
		b.Arm()
		b.Disarm("maintenance")
		b.expect(Disarmed, false)
		time.Sleep(time.Minute)
		if n := b.device.Stats().Arms; n > 1 || b.device.Running() {
			t.Errorf("armed %d times, running %v", n, b.device.Running())
		}
	})
}

// Guard: a disarm that fails leaves loop.open, so that feeding goes on.
func TestNoWayOutFeedsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{NoWayOut: true}, time.Hour)
		b.Disarm("maintenance")
		if s := b.expect(Armed, true); !errors.Is(s.Err, watchdog.ErrNoWayOut) {
			t.Errorf("error %v, want nowayout", s.Err)
		}
		if err := b.Stop(t.Context()); !errors.Is(err, watchdog.ErrNoWayOut) {
			t.Errorf("Stop: %v, want nowayout", err)
		}
		time.Sleep(time.Minute)
		if !b.device.Running() {
			t.Error("not fed after the refused disarm")
		}
	})
}

// Guard: the end of the context closes nothing. A crash must fence.
func TestEndOfContextLeavesTheDeviceArmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{}, time.Hour)
		b.cancel()
		if err := <-b.ended; !errors.Is(err, ErrLeftArmed) || !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v, want ErrLeftArmed", err)
		}
		if !b.device.Running() || b.device.Stats().Disarms != 0 {
			t.Fatal("disarmed by the end of the context")
		}
		if err := b.Stop(t.Context()); !errors.Is(err, ErrLeftArmed) {
			t.Errorf("Stop after Run: %v, want ErrLeftArmed", err)
		}
		time.Sleep(time.Minute)
		b.expectFired()
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{}, time.Hour)
		if err := b.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-b.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if s := b.expect(Disarmed, false); s.Reason != ReasonPlannedStop || b.device.Running() {
			t.Errorf("reason %q, running %v", s.Reason, b.device.Running())
		}
		if err := b.Stop(t.Context()); err != nil {
			t.Errorf("second Stop: %v", err)
		}
	})
}

// Guard: plannedStop's refusal. A starved node is not rescued by a SIGTERM.
func TestStopRefusesWhileStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{}, 3*time.Second)
		time.Sleep(4 * time.Second)
		if err := b.Stop(t.Context()); !errors.Is(err, ErrStarved) {
			t.Fatalf("Stop: %v, want ErrStarved", err)
		}
		b.expect(Starved, true)
		time.Sleep(time.Minute)
		b.expectFired()
	})
}

func TestStopKeepsTheReasonOfADisarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{}, time.Hour)
		b.Disarm("maintenance")
		if err := b.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := b.expect(Disarmed, false); s.Reason != "maintenance" {
			t.Errorf("reason %q", s.Reason)
		}
	})
}

func TestStopGivesUpWithItsContext(t *testing.T) {
	f, err := NewFeeder(Config{Device: &None{}, Clock: boottime.Now, Timeout: testTimeout, FeedInterval: testInterval})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Stop(ctx); !errors.Is(err, context.Canceled) { // Run was never called
		t.Errorf("Stop: %v", err)
	}
}

// Guard: account retries sooner than the feed interval, and nothing disarms.
func TestFailingFeedsAreRetriedUntilTheGrantEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{}, 12*time.Second)
		b.device.FailFeeds(unix.EIO)
		time.Sleep(4 * time.Second)
		time.Sleep(time.Nanosecond)
		s := b.expect(Faulty, true)
		if !errors.Is(s.Err, unix.EIO) || s.FeedErrors != 5 { // at 2.0, 2.5 .. 4.0s
			t.Errorf("%d feed errors, %v, want 5 of EIO", s.FeedErrors, s.Err)
		}
		b.device.FailFeeds(nil)
		time.Sleep(500 * time.Millisecond)
		if s := b.expect(Armed, true); s.Err != nil || s.Slack != testTimeout-4500*time.Millisecond {
			t.Errorf("error %v, slack %v", s.Err, s.Slack)
		}
		b.device.FailFeeds(unix.EIO)
		time.Sleep(8 * time.Second)
		b.expect(Starved, true)
		if b.device.Stats().Disarms != 0 {
			t.Error("disarmed by feed errors")
		}
		if got := b.path(); got != "armed faulty armed faulty starved" {
			t.Errorf("states %q", got)
		}
	})
}

func TestRecoveredFeedErrorIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{}, time.Hour)
		b.device.FailFeeds(unix.EIO)
		time.Sleep(3 * time.Second)
		b.expect(Faulty, true)
		b.device.FailFeeds(nil)
		time.Sleep(3 * time.Second)
		b.Grant(0)
		if s := b.expect(Starved, true); s.Err != nil {
			t.Errorf("error %v of a feed before others that worked", s.Err)
		}
	})
}

func TestLateFeedsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := armed(t, watchdogtest.Config{}, 5*time.Second)
		b.device.DelayFeeds(1500 * time.Millisecond)
		time.Sleep(8 * time.Second)
		if s := b.expect(Starved, true); s.LateFeeds != 1 { // begun at 4s, ended at 5.5s
			t.Errorf("%d late feeds, want 1", s.LateFeeds)
		}
	})
}
