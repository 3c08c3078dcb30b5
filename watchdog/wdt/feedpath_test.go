package wdt

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog/watchdogtest"
)

// byHand drives step without Run, on a clock that the test moves.
type byHand struct {
	*Feeder
	now    boottime.Instant
	device *watchdogtest.Device
}

func newByHand(t *testing.T, m *Metrics) *byHand {
	t.Helper()
	h := &byHand{now: 1000}
	clock := func() boottime.Instant { return h.now }
	h.device = watchdogtest.New(watchdogtest.Config{Clock: clock})
	f, err := NewFeeder(Config{Device: h.device, Clock: clock, Timeout: testTimeout, FeedInterval: testInterval, Metrics: m})
	if err != nil {
		t.Fatal(err)
	}
	h.Feeder = f
	h.Grant(h.now.Add(time.Hour))
	h.Arm()
	h.obey()
	h.armIfPermitted()
	return h
}

// Guard: whatever makes the feed path wait for the garbage collector.
func TestStepDoesNotAllocate(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*byHand)
	}{
		{"feeding", func(*byHand) {}},
		{"failing", func(h *byHand) { h.device.FailFeeds(unix.EIO) }},
		{"starved", func(h *byHand) { h.Grant(0) }},
		{"overdue", func(h *byHand) { h.now = h.now.Add(time.Minute) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newByHand(t, nil)
			c.edit(h)
			n := testing.AllocsPerRun(200, func() {
				h.now = h.now.Add(testInterval)
				h.obey()
				h.armIfPermitted()
				h.step()
			})
			if n != 0 {
				t.Errorf("%v allocations per step", n)
			}
		})
	}
}

// The real device's path, down to the kernel's door, must not allocate either.
func TestRealFeedDoesNotAllocate(t *testing.T) {
	dev := NewDevice(devicePath)
	dev.fd = 1 << 20 // no such descriptor: the ioctl is made and refused
	for _, byIO := range []bool{false, true} {
		dev.feedsByIO = byIO
		err := dev.Feed()
		if err == unix.ENOSYS {
			t.Skip("QEMU's user mode, which runs this test, has no calls of watchdogs")
		}
		if err != unix.EBADF {
			t.Fatalf("Feed: %v", err)
		}
		if n := testing.AllocsPerRun(100, func() { _ = dev.Feed() }); n != 0 {
			t.Errorf("feeds by I/O %v: %v allocations", byIO, n)
		}
	}
}

func TestStepPauses(t *testing.T) {
	h := newByHand(t, nil)
	start := h.now
	h.Grant(start.Add(3 * time.Second))
	for _, c := range []struct {
		at, want time.Duration
	}{
		{0, 2 * time.Second},                              // fed; until the next feed
		{500 * time.Millisecond, 1500 * time.Millisecond}, // woken early
		{2 * time.Second, time.Second},                    // fed; until the grant ends
		{3 * time.Second, 2 * time.Second},                // starved; never longer than the interval
		{11 * time.Second, time.Second},                   // until the countdown is over
		{12*time.Second - 1, shortestPause},
		{12 * time.Second, 2 * time.Second}, // overdue
	} {
		h.now = start.Add(c.at)
		if got := h.step(); got != c.want {
			t.Errorf("pause after the step at %v: %v, want %v", c.at, got, c.want)
		}
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	h := newByHand(t, NewMetrics(reg))
	for _, after := range []time.Duration{0, 2 * time.Second, 9800 * time.Millisecond} {
		h.now = h.now.Add(after)
		h.step()
	}
	h.device.FailFeeds(unix.EIO)
	h.now = h.now.Add(2 * time.Second)
	h.step()
	want := `
# HELP fencing_agent_watchdog_armed 1 while the countdown of the watchdog runs; always 0 in a dry run.
# TYPE fencing_agent_watchdog_armed gauge
fencing_agent_watchdog_armed 1
# HELP fencing_agent_watchdog_descriptor_kept 1 while systemd keeps a copy of the descriptor of the armed watchdog.
# TYPE fencing_agent_watchdog_descriptor_kept gauge
fencing_agent_watchdog_descriptor_kept 0
# HELP fencing_agent_watchdog_feed_errors_total Feeds that the driver refused.
# TYPE fencing_agent_watchdog_feed_errors_total counter
fencing_agent_watchdog_feed_errors_total 1
# HELP fencing_agent_watchdog_feed_slack_seconds What was left of the countdown when it was restarted.
# TYPE fencing_agent_watchdog_feed_slack_seconds histogram
fencing_agent_watchdog_feed_slack_seconds_bucket{le="0"} 0
fencing_agent_watchdog_feed_slack_seconds_bucket{le="0.25"} 1
fencing_agent_watchdog_feed_slack_seconds_bucket{le="0.5"} 1
fencing_agent_watchdog_feed_slack_seconds_bucket{le="1"} 1
fencing_agent_watchdog_feed_slack_seconds_bucket{le="2"} 1
fencing_agent_watchdog_feed_slack_seconds_bucket{le="3"} 1
fencing_agent_watchdog_feed_slack_seconds_bucket{le="5"} 1
fencing_agent_watchdog_feed_slack_seconds_bucket{le="7.5"} 1
fencing_agent_watchdog_feed_slack_seconds_bucket{le="10"} 3
fencing_agent_watchdog_feed_slack_seconds_bucket{le="15"} 3
fencing_agent_watchdog_feed_slack_seconds_bucket{le="20"} 3
fencing_agent_watchdog_feed_slack_seconds_bucket{le="25"} 3
fencing_agent_watchdog_feed_slack_seconds_bucket{le="30"} 3
fencing_agent_watchdog_feed_slack_seconds_bucket{le="45"} 3
fencing_agent_watchdog_feed_slack_seconds_bucket{le="60"} 3
fencing_agent_watchdog_feed_slack_seconds_bucket{le="120"} 3
fencing_agent_watchdog_feed_slack_seconds_bucket{le="+Inf"} 3
fencing_agent_watchdog_feed_slack_seconds_sum 18.2
fencing_agent_watchdog_feed_slack_seconds_count 3
# HELP fencing_agent_watchdog_feeds_total Feeds that worked.
# TYPE fencing_agent_watchdog_feeds_total counter
fencing_agent_watchdog_feeds_total 3
# HELP fencing_agent_watchdog_late_feeds_total Feeds permitted when they began that ended after the permission had.
# TYPE fencing_agent_watchdog_late_feeds_total counter
fencing_agent_watchdog_late_feeds_total 0
# HELP fencing_agent_watchdog_timeout_seconds Timeout that the driver read back; 0 while unarmed.
# TYPE fencing_agent_watchdog_timeout_seconds gauge
fencing_agent_watchdog_timeout_seconds 10
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	h.Disarm("maintenance")
	h.obey()
	want = `
# HELP fencing_agent_watchdog_armed 1 while the countdown of the watchdog runs; always 0 in a dry run.
# TYPE fencing_agent_watchdog_armed gauge
fencing_agent_watchdog_armed 0
# HELP fencing_agent_watchdog_timeout_seconds Timeout that the driver read back; 0 while unarmed.
# TYPE fencing_agent_watchdog_timeout_seconds gauge
fencing_agent_watchdog_timeout_seconds 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "fencing_agent_watchdog_armed", "fencing_agent_watchdog_timeout_seconds"); err != nil {
		t.Error(err)
	}
}
