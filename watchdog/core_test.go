package watchdog

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

func testCore(t testing.TB, n int, change func(*Config)) *Core {
	t.Helper()
	ms := make([]roster.Member, n)
	for i := range ms {
		ms[i].Name = fmt.Sprintf("n%04d", i)
	}
	r, err := roster.New(1, ms, ms[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Roster: r, Networks: 1, Policy: netgossip.Any(), MaxAge: 4 * time.Second, Arbitrate: 10 * time.Second, OnLoss: LossFence, Outside: true}
	if change != nil {
		change(&cfg)
	}
	return NewCore(cfg)
}

func hear(c *Core, at boottime.Instant, peers ...int) {
	for _, p := range peers {
		for n := range c.cfg.Networks {
			c.Merger().Answered(netgossip.Answer{Network: n, Peer: p, SentAt: at, Statement: &netgossip.Statement{
				RosterEpoch: c.cfg.Roster.Epoch, RosterDigest: c.cfg.Roster.Digest, Seen: roster.FullSet(c.cfg.Roster.Size()),
			}})
		}
	}
}

// Guard: the boot gate. A node that boots into a partition must not arm, or it resets in a loop.
func TestNotArmedBeforeQuorumWasSeen(t *testing.T) {
	c := testCore(t, 4, nil)
	if fx := c.Step(10 * sec); fx.Arm || fx.Decision.Reason != ReasonStarting {
		t.Fatalf("alone: %+v", fx.Decision)
	}
	hear(c, 11*sec, 1)
	if fx := c.Step(11 * sec); fx.Arm {
		t.Fatalf("in a half: %+v", fx.Decision)
	}
	hear(c, 12*sec, 1, 2)
	if fx := c.Step(12 * sec); !fx.Arm || fx.Decision.Action != Feed || fx.Decision.Until != 16*sec {
		t.Fatalf("in a majority: %+v", fx.Decision)
	}
	c.SetGuard(true, 10*time.Second)
	if fx := c.Step(20 * sec); !fx.Arm || fx.Decision.Reason != ReasonQuorumLost {
		t.Fatalf("after it was lost: arm=%v %+v", fx.Arm, fx.Decision)
	}
}

// Guard: L8. Only a counted majority restarts the arbitration budget: a tie that ends and begins again, or changes its
// members, does not.
func TestArbitrationBudgetIsNotRestartedByANewTie(t *testing.T) {
	c := testCore(t, 4, func(c *Config) { c.LUN = true })
	hear(c, 10*sec, 1, 2, 3)
	c.Step(10 * sec)
	for _, tie := range []struct{ at, peer int }{{15, 1}, {19, 2}, {23, 3}} { // another partner each time
		at := boottime.Instant(tie.at) * sec
		hear(c, at, tie.peer)
		if fx := c.Step(at); fx.Decision.Action != Hold || fx.Decision.Until != 24*sec {
			t.Fatalf("at %d s: %+v, want hold until 24 s", tie.at, fx.Decision)
		}
	}
	if fx := c.Step(24 * sec); fx.Decision.Action != Starve {
		t.Fatalf("budget over: %+v", fx.Decision)
	}
	hear(c, 26*sec, 1, 2)
	c.Step(26 * sec)
	hear(c, 31*sec, 1)
	if fx := c.Step(31 * sec); fx.Decision.Action != Hold || fx.Decision.Until != 40*sec {
		t.Fatalf("after a new majority: %+v, want hold until 40 s", fx.Decision)
	}
}

// Guard: a loop that was delayed must not count the budget from its own late step.
func TestBudgetCountsFromTheEvidenceNotFromTheAwakening(t *testing.T) {
	c := testCore(t, 4, func(c *Config) { c.LUN = true })
	hear(c, 10*sec, 1, 2, 3)
	c.Step(10 * sec)
	hear(c, 59*sec, 1)
	if fx := c.Step(60 * sec); fx.Decision.Action != Starve {
		t.Fatalf("50 s asleep: %+v", fx.Decision)
	}
}

func TestDisarmSignals(t *testing.T) {
	c := testCore(t, 3, nil)
	hear(c, 10*sec, 1, 2)
	c.Step(10 * sec)
	c.SetDisarm("file", "a test")
	c.SetDisarm("annotation", "a test")
	if fx := c.Step(10 * sec); !fx.Disarm || fx.Arm || fx.Decision.Reason != ReasonMaintenance {
		t.Fatalf("%+v", fx.Decision)
	}
	c.SetDisarm("file", "")
	if fx := c.Step(10 * sec); !fx.Disarm {
		t.Fatal("one of two signals is still set")
	}
	c.SetDisarm("annotation", "")
	if fx := c.Step(11 * sec); fx.Disarm || !fx.Arm || fx.Decision.Action != Feed {
		t.Fatalf("%+v", fx.Decision)
	}
}

func TestEdgesArePublishedOnce(t *testing.T) {
	c := testCore(t, 3, nil)
	hear(c, 10*sec, 1, 2)
	if fx := c.Step(10 * sec); fx.Joined != roster.SetOf(0, 1, 2) {
		t.Fatalf("joined %v", c.cfg.Roster.Names(fx.Joined))
	}
	hear(c, 12*sec, 1)
	if fx := c.Step(12 * sec); !fx.Joined.IsEmpty() || !fx.Left.IsEmpty() {
		t.Fatal("edges without a change")
	}
	for at := 13 * sec; at < 14*sec; at += sec / 4 {
		c.Step(at)
	}
	if fx := c.Step(14 * sec); fx.Left != roster.SetOf(2) {
		t.Fatalf("left %v", c.cfg.Roster.Names(fx.Left))
	}
	c.Step(15 * sec)
	if fx := c.Step(16 * sec); fx.Left != roster.SetOf(0, 1) {
		t.Fatalf("a node without quorum is still available on its own socket: left %v", c.cfg.Roster.Names(fx.Left))
	}
}

func TestPlannedStopFeedsOnAndSaysSo(t *testing.T) {
	c := testCore(t, 3, nil)
	hear(c, 10*sec, 1, 2)
	c.Step(10 * sec)
	c.Stop()
	fx := c.Step(11 * sec)
	if fx.Decision.Action != Feed || fx.Decision.Reason != ReasonStopping || !fx.Statement.Stopping || !fx.Nudge {
		t.Fatalf("%+v nudge=%v", fx.Decision, fx.Nudge)
	}
	if fx := c.Step(15 * sec); fx.Decision.Action != Starve {
		t.Fatalf("a stop rescued a node without quorum: %+v", fx.Decision)
	}
}

func TestStatementIsNewOnlyWhenItChanged(t *testing.T) {
	c := testCore(t, 3, nil)
	hear(c, 10*sec, 1, 2)
	first := c.Step(10 * sec).Statement
	c.Step(10*sec + 1) // the statement now says that the node feeds
	second := c.Step(10*sec + 2).Statement
	if third := c.Step(10*sec + 3).Statement; third != second || first == nil {
		t.Fatal("a statement was made although nothing changed")
	}
	if fx := c.Step(15 * sec); fx.Statement == second || !fx.Nudge {
		t.Fatal("the peers are not told of a changed view at once")
	}
}

func TestWakeIsNeverLaterThanTheNextExpiry(t *testing.T) {
	c := testCore(t, 3, nil)
	hear(c, 10*sec, 1)
	hear(c, 11*sec, 2)
	if fx := c.Step(12 * sec); fx.Wake != 14*sec {
		t.Fatalf("wake at %v s, evidence expires at 14 s", fx.Wake/sec)
	}
}

func BenchmarkStep(b *testing.B) {
	for _, n := range []int{4, 100, 1000} {
		b.Run(fmt.Sprintf("N=%d/networks=4", n), func(b *testing.B) {
			c := testCore(b, n, func(c *Config) { c.Networks = 4 })
			peers := make([]int, n-1)
			for i := range peers {
				peers[i] = i + 1
			}
			hear(c, 10*sec, peers...)
			c.Step(11 * sec)
			c.Step(11 * sec)
			b.ReportAllocs()
			for b.Loop() {
				if c.Step(12*sec).Decision.Action != Feed {
					b.Fatal("no quorum")
				}
			}
		})
	}
}

// The steady state allocates nothing: a garbage collection must not sit on the decision path.
func TestStepDoesNotAllocate(t *testing.T) {
	c := testCore(t, 100, func(c *Config) { c.Networks = 4 })
	for p := 1; p < 100; p++ {
		hear(c, 10*sec, p)
	}
	c.Step(11 * sec)
	c.Step(11 * sec)
	if n := testing.AllocsPerRun(100, func() { c.Step(12 * sec) }); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

// Guard: a node that was stopped for a while withdraws its permission, and itself, at once, but does not call its peers
// LEFT before they could answer.
func TestStallIsNoReasonToCallEverybodyLeft(t *testing.T) {
	c := testCore(t, 3, nil)
	hear(c, 10*sec, 1, 2)
	c.Step(10 * sec)
	fx := c.Step(20 * sec) // stopped for 10 s
	if fx.Decision.Action != Starve || fx.Left != roster.SetOf(0) || fx.Wake > 21*sec {
		t.Fatalf("awake: %+v, left %v, wake at %v s", fx.Decision, c.cfg.Roster.Names(fx.Left), fx.Wake/sec)
	}
	hear(c, 20*sec+1, 1)
	if fx := c.Step(20*sec + 2); !fx.Left.IsEmpty() || fx.Joined != roster.SetOf(0) {
		t.Fatalf("one has answered: left %v", c.cfg.Roster.Names(fx.Left))
	}
	if fx := c.Step(20*sec + sec/3); fx.Left != roster.SetOf(2) {
		t.Fatalf("grace is over: left %v, want the one that did not answer", c.cfg.Roster.Names(fx.Left))
	}
}

// Guard: a node that was stopped for less time than evidence lasts does not call itself LEFT, and JOINed a moment
// later: no peer has missed it. It asks all peers at once, and those that have not answered once more. If others state
// that they live without it, there is no such grace.
func TestBriefStallIsNoReasonToSayLeft(t *testing.T) {
	c := testCore(t, 3, nil)
	hear(c, 10*sec, 1, 2)
	c.Step(11*sec + sec/2)
	fx := c.Step(14*sec + sec/4) // stopped for 2.75 s, and the evidence has run out
	if fx.Decision.Action != Starve || !fx.Left.IsEmpty() || len(fx.Ask) != 1 || fx.Ask[0] != roster.SetOf(1, 2) {
		t.Fatalf("awake: %+v, left %v, asks %v", fx.Decision, c.cfg.Roster.Names(fx.Left), fx.Ask)
	}
	at := 14*sec + sec/4 + boottime.Instant(stallAgain)
	if hear(c, 14*sec+sec/4+1, 1); fx.Wake > at {
		t.Fatalf("wakes at %v", time.Duration(fx.Wake))
	}
	if fx := c.Step(at); !fx.Left.IsEmpty() || !fx.Joined.IsEmpty() || len(fx.Ask) != 1 || fx.Ask[0] != roster.SetOf(2) {
		t.Errorf("one has answered: left %v, joined %v, asks %v", c.cfg.Roster.Names(fx.Left), c.cfg.Roster.Names(fx.Joined), fx.Ask)
	}
	if fx := c.Step(15 * sec); fx.Left != roster.SetOf(2) || fx.Ask != nil {
		t.Errorf("grace is over: left %v, asks %v", c.cfg.Roster.Names(fx.Left), fx.Ask)
	}

	c = testCore(t, 3, nil)
	hear(c, 10*sec, 1, 2)
	c.Step(11*sec + sec/2)
	if fx := c.Step(14*sec + sec/4); !fx.Left.IsEmpty() {
		t.Fatalf("left %v", c.cfg.Roster.Names(fx.Left))
	}
	if fx := c.Step(14*sec + sec/4 + boottime.Instant(stallWord)); fx.Left != roster.FullSet(3) {
		t.Errorf("nobody has answered: left %v", c.cfg.Roster.Names(fx.Left))
	}
}

// Statements of one boot are ordered by their time; an unchanged statement keeps its time.
func TestStatementsTellWhenTheyWereMade(t *testing.T) {
	c := testCore(t, 3, nil)
	first := c.Step(10 * sec).Statement
	if first.Stated != 10*sec {
		t.Errorf("stated %v", first.Stated)
	}
	if st := c.Step(11 * sec).Statement; st != first {
		t.Errorf("a statement that says the same is another one: %+v", st)
	}
	hear(c, 12*sec, 1, 2)
	if st := c.Step(12 * sec).Statement; st == first || st.Stated != 12*sec {
		t.Errorf("a new one is stated %v", st.Stated)
	}
}
