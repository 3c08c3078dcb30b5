package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

func holding5(t *testing.T) *Core {
	t.Helper()
	return mourners(t, netgossip.Statement{Guard: killing}, func(cfg *Config) { cfg.Hold, cfg.LUN = true, true })
}

// claims steps the core once a second, while the peers that answer returns are answering. It returns when the core
// claims that the last node is dead; zero: never.
func claims(c *Core, answer func(d time.Duration) []int) time.Duration {
	for d := 11 * time.Second; d < 3*time.Minute; d += time.Second {
		peers := answer(d)
		for _, p := range peers {
			tell(c, boottime.Instant(d), p, netgossip.Statement{Guard: killing})
		}
		if peers == nil {
			continue // the node stalls
		}
		if c.Step(boottime.Instant(d)).Statement.Lost.Has(4) {
			return d
		}
	}
	return 0
}

// Guards: M1, M2. A claim covers only time in which the node lived.
func TestClaimsCoverOnlyTimeInWhichTheNodeLived(t *testing.T) {
	most := []int{1, 2, 3}
	steady := claims(holding5(t), func(time.Duration) []int { return most })
	if at := lastSeen + testClaim; steady < at-5*time.Second || steady > at+time.Second {
		t.Fatalf("in a steady majority after %v, want some %v", steady, at)
	}
	if got := claims(holding5(t), func(d time.Duration) []int {
		if d > 20*time.Second && d < 35*time.Second {
			return []int{1}
		}
		return most
	}); got < 34*time.Second+testClaim {
		t.Errorf("the majority was lost until 35 s, and the claim is made at %v", got)
	}
	if got := claims(holding5(t), func(d time.Duration) []int {
		if d > 20*time.Second && d < 35*time.Second {
			return nil
		}
		return most
	}); got < 34*time.Second+testClaim {
		t.Errorf("the agent stood still until 35 s, and the claim is made at %v", got)
	}
	if got := claims(mourners(t, netgossip.Statement{Guard: killing}, nil), func(d time.Duration) []int {
		if d > 20*time.Second && d < 35*time.Second {
			return []int{1}
		}
		return most
	}); got != steady {
		t.Errorf("nobody holds where there is no LUN, and the claim is made at %v, not %v", got, steady)
	}
}

// Guard: H2. A member that was seen may count this node for as long as evidence lasts.
func TestLatelySeen(t *testing.T) {
	c := testCore(t, 3, nil)
	hear(c, 10*sec, 1)
	c.Step(10 * sec)
	c.Step(13 * sec)
	c.Step(15 * sec) // the evidence of 10 s has run out, and the statement that says so is sent from now on
	if c.view.Seen.Has(1) {
		t.Fatal("it is seen for longer than evidence lasts")
	}
	c.Step(16 * sec)
	if got := c.lately(19 * sec); !got.Has(1) {
		t.Errorf("4 s after it was stated last: %v", got)
	}
	if got := c.lately(19*sec + 1); got.Has(1) {
		t.Errorf("more than 4 s after it was stated last: %v", got)
	}
	c.cfg.Window = func(int) time.Duration { return 8 * time.Second }
	if got := c.lately(23 * sec); got != roster.SetOf(1) {
		t.Errorf("where samples prolong that: %v", got)
	}
}

// Guard: H6. Neither a momentary state nor old blocks are a ground.
func TestCondemned(t *testing.T) {
	c := testCore(t, 5, nil)
	for _, s := range []struct {
		since, by boottime.Instant
		want      bool
	}{{0, 0, false}, {0, 50 * sec, false}, {50 * sec, 52 * sec, false}, {50 * sec, 54*sec - 1, false}, {50 * sec, 54 * sec, true}, {50 * sec, 0, false}} {
		c.hold.ground, c.hold.heard = s.since, diskquorum.Hearing{Ground: s.by}
		if got := c.hold.certain(c.rosters.window()); got != s.want {
			t.Errorf("ground since %v, by words of %v: %v", s.since, s.by, got)
		}
	}
}

// Guard: H5. A node that holds stays available, has no quorum, and calls no node dead.
func TestHoldIsNoQuorum(t *testing.T) {
	d := Decide(&Inputs{Now: 100 * sec, Outcome: netgossip.Minority, HadQuorum: true, OnLoss: LossFence, Vacant: 105 * sec})
	if d.Action != Hold || d.Quorum || d.Until != 105*sec {
		t.Errorf("%+v", d)
	}
}

// A permission briefly outlives the first sign that others live again, but not the time for which it was given.
func TestHoldOutlivesTheNewsOfAHeal(t *testing.T) {
	for _, s := range []struct{ vacant, now, want boottime.Instant }{
		{20 * sec, 11 * sec, 12 * sec}, {20 * sec, 12 * sec, 0}, {11 * sec, 10*sec + 1, 11 * sec}, {11 * sec, 11 * sec, 0},
	} {
		c := testCore(t, 3, nil)
		c.outcome, c.hold.vacant, c.hold.vacantAt = netgossip.Minority, s.vacant, 10*sec
		if c.followHold(s.now); c.hold.heard.Vacant != s.want {
			t.Errorf("given at 10 s until %v, at %v until %v, want %v", s.vacant, s.now, c.hold.heard.Vacant, s.want)
		}
	}
}

// Guard: H3. A grant that names others ends this. The permission does not come back when they give the grant up.
func TestHoldDoesNotOutliveADecision(t *testing.T) {
	h := holding{heard: diskquorum.Hearing{Vacant: 20 * sec}}
	h.linger(10 * sec)
	h.heard, h.excluded = diskquorum.Hearing{}, true
	h.linger(10*sec + sec/2)
	h.heard, h.excluded = diskquorum.Hearing{Isolated: true}, false
	if h.linger(11 * sec); h.heard.Vacant != 0 || !h.heard.Isolated {
		t.Errorf("half a second after others were granted the half: %+v", h.heard)
	}
}
