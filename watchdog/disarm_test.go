package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// guardedCore returns an armed node of n that has seen all peers at 10 s; the peers take it for guarded.
func guardedCore(t *testing.T, n int, change func(*Config)) *Core {
	t.Helper()
	c := testCore(t, n, change)
	c.SetGuard(true, 10*time.Second)
	for p := 1; p < n; p++ {
		tell(c, 10*sec, p, netgossip.Statement{Guarded: roster.SetOf(0)})
	}
	if fx := c.Step(10 * sec); !fx.Arm || !fx.Statement.Guard.Kills() {
		t.Fatalf("%+v", fx.Statement.Guard)
	}
	return c
}

// Guard: peers may rely on the death of an armed node, so it is not disarmed before a majority knows that it will be.
func TestDisarmWaitsUntilAMajorityKnows(t *testing.T) {
	c := guardedCore(t, 5, nil)
	c.SetDisarm("file", "a test")
	fx := c.Step(10*sec + 1)
	if fx.Disarm || fx.Decision.Action != Feed || fx.Decision.Reason != ReasonMaintenance {
		t.Fatalf("before anybody knows: %+v", fx.Decision)
	}
	if fx.Statement.Guard.Armed || !fx.Nudge {
		t.Fatal("the announcement is not made")
	}
	tell(c, 11*sec, 1, netgossip.Statement{})
	tell(c, 11*sec, 2, netgossip.Statement{Guarded: roster.SetOf(0)})
	tell(c, 10*sec+2, 3, netgossip.Statement{}) // an older announcement may still be on its way
	if fx = c.Step(11 * sec); fx.Disarm {
		t.Fatal("disarmed although two of five know")
	}
	tell(c, 12*sec, 2, netgossip.Statement{})
	if fx = c.Step(12 * sec); !fx.Disarm || fx.Decision.Until <= 12*sec {
		t.Fatalf("a majority knows: %+v", fx.Decision)
	}
	// The signal is removed before the feeder has answered: its result is not known yet.
	c.SetDisarm("file", "")
	if fx = c.Step(12*sec + 1); fx.Statement.Guard.Armed {
		t.Fatal("claims to be armed right after a disarm")
	}
	c.SetGuard(false, 0)
	c.Step(12*sec + 2)
	c.SetGuard(true, 10*time.Second)
	if fx = c.Step(12*sec + 3); !fx.Statement.Guard.Armed {
		t.Fatal("armed again and does not say so")
	}
}

func TestDisarmTakenBackInTime(t *testing.T) {
	c := guardedCore(t, 5, nil)
	c.SetDisarm("file", "a test")
	c.Step(10*sec + 1)
	c.SetDisarm("file", "")
	if fx := c.Step(10*sec + 2); fx.Disarm || !fx.Statement.Guard.Armed || fx.Decision.Reason != ReasonNetworkQuorum {
		t.Fatalf("%+v %+v", fx.Decision, fx.Statement.Guard)
	}
}

// Guard: a disarm signal does not save a node that has lost its peers.
func TestIsolatedNodeIsNotDisarmed(t *testing.T) {
	c := guardedCore(t, 5, nil)
	c.SetDisarm("file", "a test")
	for at := 15 * sec; at < 30*sec; at += sec {
		tell(c, at, 1, netgossip.Statement{}) // peer 1 knows, but two of five are not enough
		if fx := c.Step(at); fx.Disarm || fx.Decision.Action != Starve {
			t.Fatalf("%+v", fx.Decision)
		}
	}
}

// Guard: without the policy fence no peer relies on the node's death, so the node does not wait.
func TestUnfencedNodeIsDisarmedAtOnce(t *testing.T) {
	c := testCore(t, 5, func(c *Config) { c.OnLoss = LossWait })
	c.SetGuard(true, 10*time.Second)
	hear(c, 10*sec, 1, 2)
	c.Step(10 * sec)
	c.SetDisarm("file", "a test")
	if fx := c.Step(20 * sec); !fx.Disarm {
		t.Fatalf("%+v", fx.Decision)
	}
}

// In half of the group all members must know, and the slot must state it for the other half, if that half could prove a
// death by its grant.
func TestDisarmInAHalf(t *testing.T) {
	for _, tc := range []struct {
		name string
		lun  bool
		want bool
	}{{"by the API", false, true}, {"with a LUN that has no slot of this node", true, false}} {
		c := guardedCore(t, 4, func(c *Config) { c.LUN, c.API, c.APIMaxAge = tc.lun, true, time.Minute })
		c.APIChecked(true, 15*sec)
		c.SetDisarm("file", "a test")
		c.Step(15 * sec)
		tell(c, 16*sec, 1, netgossip.Statement{Guarded: roster.SetOf(0)})
		if fx := c.Step(16 * sec); fx.Disarm {
			t.Errorf("%s: disarmed although the partner does not know", tc.name)
		}
		tell(c, 17*sec, 1, netgossip.Statement{})
		if fx := c.Step(17 * sec); fx.Disarm != tc.want {
			t.Errorf("%s: disarm %v, want %v", tc.name, fx.Disarm, tc.want)
		}
	}
}

func TestPlannedStopIsReleasedLikeADisarm(t *testing.T) {
	c := guardedCore(t, 3, nil)
	c.Stop()
	if c.Step(10*sec + 1); c.Released() || !c.Releasing() {
		t.Fatal("released before anybody knows")
	}
	tell(c, 11*sec, 1, netgossip.Statement{})
	if c.Step(11 * sec); !c.Released() || c.Releasing() {
		t.Fatal("a majority knows")
	}
	c = testCore(t, 3, nil) // never armed
	if c.Step(9 * sec); c.Releasing() {
		t.Fatal("releasing, and nobody asks for it")
	}
	c.Stop()
	if c.Step(10 * sec); !c.Released() {
		t.Fatal("nobody relies on an unarmed node")
	}
}

// Guard: an agent that follows a crashed one may have a longer horizon, so it does not arm before a majority knows of
// it, however long that takes. Counted peers that do not learn of it stop seeing it.
func TestArmingWaitsForPeersThatReckonWithTheOldAgent(t *testing.T) {
	c := testCore(t, 5, nil)
	believed := netgossip.Statement{Guarded: roster.SetOf(0)}
	for at := boottime.Instant(10 * sec); at <= 60*sec; at += sec {
		for p := 1; p < 5; p++ {
			tell(c, at, p, believed)
		}
		if fx := c.Step(at); fx.Arm || !c.Arming() || fx.Decision.Action != Feed {
			t.Fatalf("at %v: arm %v, %+v: nobody knows", at, fx.Arm, fx.Decision)
		}
	}
	tell(c, 61*sec, 1, netgossip.Statement{})
	if fx := c.Step(61 * sec); fx.Arm {
		t.Fatal("armed although two of five know")
	}
	tell(c, 62*sec, 2, netgossip.Statement{})
	if fx := c.Step(62 * sec); !fx.Arm || c.Arming() {
		t.Fatal("a majority knows, not armed")
	}
}

// Guard: an agent waits before it arms under any policy: the peers rely on the statement of the agent before it.
// Otherwise a node that came back with "wait" could arm at once, be cut off before any peer knew, and feed on while it
// is called FENCED.
func TestPolicyOfThisAgentDoesNotExcuseItFromWaiting(t *testing.T) {
	for _, policy := range []LossPolicy{LossWait, LossExclude} {
		c := testCore(t, 3, func(c *Config) { c.OnLoss = policy })
		tell(c, 10*sec, 1, netgossip.Statement{Guarded: roster.SetOf(0)})
		if fx := c.Step(10 * sec); fx.Arm {
			t.Fatalf("%v: armed although the peer reckons with the agent before it", policy)
		}
		tell(c, 11*sec, 1, netgossip.Statement{})
		if fx := c.Step(11 * sec); !fx.Arm {
			t.Fatalf("%v: a majority knows, not armed", policy)
		}
	}
}

// Guard: a half that is at odds may break ties in another way than the other half, which may get a grant and prove a
// death by it.
func TestHalfAtOddsDoesNotArm(t *testing.T) {
	c := testCore(t, 4, nil)
	tell(c, 11*sec, 1, netgossip.Statement{})
	c.Step(11 * sec)
	c.fx.Decision.Reason = ReasonAPIReachable
	for _, united := range []bool{false, true} {
		if c.united = united; c.mayArm() != united {
			t.Errorf("united %v: arm %v", united, !united)
		}
	}
}

// In a half all members must know. If the other half could get a grant and prove a death by it, this node only arms
// under a grant that names it, together with its stated horizon.
func TestArmingInAHalf(t *testing.T) {
	for _, tc := range []struct {
		name   string
		leases bool
		why    Reason
		want   bool
	}{
		{"by the API", false, ReasonAPIReachable, true},
		{"with a LUN, undecided", true, ReasonSplitPending, false},
		{"with a LUN, by a grant", true, ReasonSplitWon, true},
	} {
		c := testCore(t, 4, nil)
		c.guard.Leases = tc.leases
		tell(c, 10*sec, 1, netgossip.Statement{Guarded: roster.SetOf(0)})
		c.Step(10 * sec)
		if c.fx.Decision.Reason = tc.why; c.mayArm() {
			t.Errorf("%s: armed although the partner does not know", tc.name)
		}
		tell(c, 11*sec, 1, netgossip.Statement{})
		c.Step(11 * sec)
		if c.fx.Decision.Reason = tc.why; c.mayArm() != tc.want {
			t.Errorf("%s: arm %v, want %v", tc.name, !tc.want, tc.want)
		}
	}
}

// An agent that found its watchdog armed, and whose peers know this, goes on at once.
func TestArmedWatchdogIsNotHeldUp(t *testing.T) {
	c := testCore(t, 3, func(c *Config) { c.Budget.Watchdog = 9 * time.Second })
	c.SetGuard(true, 9*time.Second)
	tell(c, 10*sec, 1, netgossip.Statement{Guarded: roster.SetOf(0)})
	if fx := c.Step(10 * sec); !fx.Arm {
		t.Fatal("an armed watchdog is held up")
	}
}

// Guard: knowledge of one announcement does not count for the next one.
func TestSecondDisarmWaitsLikeTheFirst(t *testing.T) {
	c := guardedCore(t, 3, nil)
	for i := range 2 {
		at := boottime.Instant(11+10*i) * sec
		tell(c, at, 1, netgossip.Statement{Guarded: roster.SetOf(0)})
		c.SetDisarm("file", "a test")
		if fx := c.Step(at); fx.Disarm {
			t.Fatalf("disarm %d waits for nobody", i+1)
		}
		tell(c, at+sec, 1, netgossip.Statement{})
		if fx := c.Step(at + sec); !fx.Disarm {
			t.Fatalf("disarm %d: a majority knows", i+1)
		}
		c.SetGuard(false, 0)
		c.SetDisarm("file", "")
		c.Step(at + 2*sec)
		c.SetGuard(true, 10*time.Second)
	}
}

// Guard: the other half knows from the slot once a record has landed that was composed after the announcement. A write
// that was under way at the announcement is the next one in the sequence, but may be older.
func TestSlotShowsWhatWasWrittenAfterTheAnnouncement(t *testing.T) {
	r := release{announced: 10 * sec, mark: 5}
	for _, tc := range []struct {
		name     string
		sequence uint64
		age      time.Duration // at 20 s
		want     bool
	}{
		{"two writes later", 7, 9 * time.Second, true},
		{"the write that was under way", 6, 9 * time.Second, false},
		{"begun before the announcement", 7, 11 * time.Second, false},
		{"begun before it had reached everybody", 7, 10*time.Second - letReach, false},
		{"right after", 7, 10*time.Second - letReach - 1, true},
		{"nothing has landed", 7, -1, false},
	} {
		if got := r.written(20*sec, tc.sequence, tc.age); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// Guard: peers rely on the horizon that was stated to them.
func TestBudgetNeverShrinks(t *testing.T) {
	c := testCore(t, 3, func(c *Config) { c.Budget = Budget{MaxAge: 4 * time.Second, Feed: time.Second} })
	c.SetGuard(true, 10*time.Second)
	for _, tc := range []struct{ sampling, want time.Duration }{{0, 25}, {4, 29}, {2, 29}, {5, 30}} {
		c.SetBudget(Budget{MaxAge: 4 * time.Second, Sampling: tc.sampling * time.Second, Feed: time.Second})
		if got := c.Step(10 * sec).Statement.Guard.Horizon; got != tc.want*time.Second {
			t.Errorf("sampling for %v s: horizon %v, want %v s", tc.sampling, got, tc.want)
		}
	}
}
