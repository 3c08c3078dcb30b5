package config

import (
	"testing"
	"time"
)

func TestTimingsFillWhatTheFileLeavesOut(t *testing.T) {
	c, _, err := Parse("f", []byte(with("timing: fast\nwatchdog: {timeout: 8s}\ngossip: {profile: calm}")), environment("NODE_NAME", "n1"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Watchdog.Timeout != 8*time.Second || c.Gossip.Profile != ProfileCalm {
		t.Errorf("explicit keys do not win: %v, %v", c.Watchdog.Timeout, c.Gossip.Profile)
	}
	if c.Watchdog.FeedInterval != time.Second || c.LUN.IOTimeout != 500*time.Millisecond {
		t.Errorf("fast: feed %v, I/O timeout %v", c.Watchdog.FeedInterval, c.LUN.IOTimeout)
	}
}

// Each timing must be a configuration that the agent would take, with and without a LUN,
// and each must be slower than the one before.
func TestTimingsAreValidAndOrdered(t *testing.T) {
	last := time.Duration(0)
	for _, timing := range Timings() {
		r := newReport()
		c := ForTiming(timing, 4)
		c.LUN.Devices = []string{"/dev/mapper/fence"}
		checkLUN(c, r)
		checkWatchdog(c, r)
		for _, p := range r.problems {
			t.Errorf("%s: %v", timing, p)
		}
		if d := c.Budget(c.Watchdog.Timeout).Tie(); d <= last {
			t.Errorf("%s: %v, no more than the one before", timing, d)
		} else {
			last = d
		}
	}
	d := ForTiming(TimingDefault, 0)
	d.Members.Static = nil
	if got, want := *d, *Default(); got.Watchdog != want.Watchdog || got.LUN.IOTimeout != want.LUN.IOTimeout || got.Gossip.Profile != want.Gossip.Profile {
		t.Error("the default timing is not the default")
	}
}
