package watchdog

import (
	"testing"
	"time"
)

// Guard: a node is struck only when it has starved for want of quorum, armed, for a while.
func TestStrike(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		armed  bool
		before func(*Core)
		want   bool
	}{
		{"armed and alone", nil, true, nil, true},
		{"not armed", nil, false, nil, false},
		{"waits without quorum", func(c *Config) { c.OnLoss = LossWait }, true, nil, false},
		{"excludes itself", func(c *Config) { c.OnLoss = LossExclude }, true, nil, false},
		{"in maintenance", nil, true, func(c *Core) { c.SetDisarm("file", "a test") }, false},
		{"stopping", nil, true, func(c *Core) { c.Stop() }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := testCore(t, 3, tc.change)
			c.SetGuard(tc.armed, 10*time.Second)
			hear(c, 10*sec, 1, 2)
			if fx := c.Step(10 * sec); fx.Strike {
				t.Fatal("struck with quorum")
			}
			if tc.before != nil {
				tc.before(c)
			}
			struck := 0 * sec
			for at := 11 * sec; at <= 30*sec && struck == 0; at += sec / 2 {
				if c.Step(at).Strike {
					struck = at
				}
			}
			switch {
			case !tc.want && struck != 0:
				t.Errorf("struck at %v", time.Duration(struck))
			case tc.want && struck != 15*sec: // the evidence ran out at 14 s
				t.Errorf("struck at %v, want 15 s", time.Duration(struck))
			}
		})
	}
}

// Guard: a node that boots into a partition is not struck, or it would reboot for ever. (It would not be armed either;
// the countdown is that of an earlier agent.)
func TestBootIntoAPartitionIsNotStruck(t *testing.T) {
	c := testCore(t, 3, nil)
	c.SetGuard(true, 10*time.Second)
	for at := 10 * sec; at < 60*sec; at += sec {
		if fx := c.Step(at); fx.Strike {
			t.Fatalf("struck at %v for %v", time.Duration(at), fx.Decision.Reason)
		}
	}
}

// Guard: a node is not struck for a moment without quorum, even if there are many such moments.
func TestStrikeWaitsForASteadyLoss(t *testing.T) {
	c := testCore(t, 3, nil)
	c.SetGuard(true, 10*time.Second)
	heard := 10 * sec
	hear(c, heard, 1)
	for at := heard; at < 40*sec; at += sec / 4 {
		if at >= heard+4*sec+sec*3/4 { // three quarters of a second after the evidence ran out
			heard = at
			hear(c, heard, 1)
		}
		if c.Step(at).Strike {
			t.Fatalf("struck at %v", time.Duration(at))
		}
	}
}

// Guard: a node that stalled hears its peers before it may be struck.
func TestStrikeAfterAStallWaitsForThePeers(t *testing.T) {
	c := testCore(t, 3, nil)
	c.SetGuard(true, 30*time.Second)
	hear(c, 10*sec, 1, 2)
	c.Step(10 * sec)
	if fx := c.Step(20 * sec); fx.Strike {
		t.Fatal("struck at once after a stall")
	}
	c.Step(20*sec + sec/2)
	if fx := c.Step(21 * sec); fx.Strike {
		t.Fatal("the time in which peers may answer counts as a loss")
	}
	hear(c, 20*sec+sec/2, 1, 2)
	if fx := c.Step(21 * sec); fx.Strike || fx.Decision.Action != Feed {
		t.Fatalf("%+v", fx.Decision)
	}
}
