package watchdog

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const testGrace = 30 * time.Second

// lifeCore returns a core of n nodes that has seen all peers at 10 s, each with boot 100 + index.
func lifeCore(t *testing.T, n int) *Core {
	t.Helper()
	c := testCore(t, n, func(c *Config) { c.RestartGrace = testGrace })
	for p := 1; p < n; p++ {
		tell(c, 10*sec, p, netgossip.Statement{})
	}
	if fx := c.Step(10 * sec); fx.Available.Len() != n {
		t.Fatalf("available: %v", c.cfg.Roster.Names(fx.Available))
	}
	return c
}

// tell lets a peer answer on all networks, with the boot 100 + peer unless another one is given.
func tell(c *Core, at boottime.Instant, peer int, st netgossip.Statement) {
	st.RosterEpoch, st.RosterDigest, st.Seen = c.cfg.Roster.Epoch, c.cfg.Roster.Digest, roster.FullSet(c.cfg.Roster.Size())
	if st.Boot == 0 {
		st.Boot = 100 + uint64(peer)
	}
	for n := range c.cfg.Networks {
		c.Merger().Answered(netgossip.Answer{Network: n, Peer: peer, SentAt: at, Statement: &st})
	}
}

var (
	restarting = netgossip.Statement{Stopping: true, Feeding: true}
	leaving    = netgossip.Statement{Stopping: true}
)

// edges steps the core and checks the edges.
func edges(t *testing.T, c *Core, at boottime.Instant, what string, left, joined roster.Set) *Effects {
	t.Helper()
	fx := c.Step(at)
	if fx.Left != left || fx.Joined != joined {
		t.Fatalf("%s, at %v s: left %v, joined %v; want %v and %v", what, float64(at)/float64(sec), c.cfg.Roster.Names(fx.Left), c.cfg.Roster.Names(fx.Joined),
			c.cfg.Roster.Names(left), c.cfg.Roster.Names(joined))
	}
	return fx
}

var nobody roster.Set

// walk steps once a second, and the peers answer each time.
func walk(t *testing.T, c *Core, from, to boottime.Instant, what string, peers ...int) {
	t.Helper()
	for at := from; at < to; at += sec {
		for _, p := range peers {
			tell(c, at, p, netgossip.Statement{})
		}
		edges(t, c, at, what, nobody, nobody)
	}
}

// Guard: restart. A rolling upgrade must not move traffic away from healthy nodes.
func TestAnnouncedRestartIsNotLeft(t *testing.T) {
	c := lifeCore(t, 4)
	tell(c, 11*sec, 1, restarting)
	c.Merger().MemberChanged(0, 1, false, 14*sec)
	walk(t, c, 11*sec, 40*sec, "away for less than the grace", 2, 3)
	if c.Restarting() != roster.SetOf(1) || c.View().Counted.Has(1) || c.View().Seen.Has(1) {
		t.Fatalf("restarting %v, view %+v", c.cfg.Roster.Names(c.Restarting()), c.View())
	}
	c.Merger().MemberChanged(0, 1, true, 40*sec)
	walk(t, c, 40*sec, 100*sec, "back in time", 1, 2, 3)
	if !c.Restarting().IsEmpty() || c.LeftReason(1) != 0 {
		t.Fatal("still held by its grace")
	}
}

// Guard: the grace only affects subscribers. A node that is missing does not count for the quorum.
func TestGraceDoesNotCountForQuorum(t *testing.T) {
	c := lifeCore(t, 3)
	tell(c, 11*sec, 1, restarting)
	tell(c, 11*sec, 2, restarting)
	walk(t, c, 11*sec, 15*sec, "both restart")
	fx := edges(t, c, 15*sec, "evidence has run out", roster.SetOf(0), nobody)
	if fx.Decision.Action != Starve || c.LeftReason(0) != LeftNoQuorum {
		t.Fatalf("%+v, reason %v", fx.Decision, c.LeftReason(0))
	}
}

func TestGraceRunsOut(t *testing.T) {
	c := lifeCore(t, 4)
	tell(c, 11*sec, 1, restarting)
	walk(t, c, 11*sec, 40*sec, "within the grace", 2, 3)
	tell(c, 40*sec, 2, netgossip.Statement{})
	tell(c, 40*sec, 3, netgossip.Statement{})
	if fx := c.Step(40*sec + 1); fx.Wake != 41*sec {
		t.Fatalf("wake at %v s, the grace ends at 41 s", fx.Wake/sec)
	}
	edges(t, c, 41*sec-1, "a moment before", nobody, nobody)
	edges(t, c, 41*sec, "30 s after its last answer", roster.SetOf(1), nobody)
	if c.LeftReason(1) != LeftRestartOverdue {
		t.Fatal(c.LeftReason(1))
	}
	edges(t, c, 42*sec, "once only", nobody, nobody)
	for p := 1; p < 4; p++ {
		tell(c, 50*sec, p, netgossip.Statement{})
	}
	edges(t, c, 50*sec, "back at last", nobody, roster.SetOf(1))
}

// Guard: there is no grace for a node that announced that it leaves.
func TestLeavingNodeIsLeftAtOnce(t *testing.T) {
	c := lifeCore(t, 4)
	tell(c, 11*sec, 1, leaving)
	edges(t, c, 11*sec, "it says that it leaves", roster.SetOf(1), nobody)
	if c.LeftReason(1) != LeftLeaving {
		t.Fatal(c.LeftReason(1))
	}
	walk(t, c, 12*sec, 20*sec, "away", 2, 3)
	tell(c, 20*sec, 1, netgossip.Statement{})
	edges(t, c, 20*sec, "back", nobody, roster.SetOf(1))
}

// A crashed node is LEFT exactly when the evidence ends.
func TestCrashIsLeftByEvidence(t *testing.T) {
	c := lifeCore(t, 4)
	walk(t, c, 11*sec, 14*sec, "n1 is silent", 2, 3)
	edges(t, c, 14*sec, "D_max", roster.SetOf(1), nobody)
	if c.LeftReason(1) != LeftUnreachable {
		t.Fatal(c.LeftReason(1))
	}
}

func TestWithoutGraceARestartIsLeftByEvidence(t *testing.T) {
	c := lifeCore(t, 4)
	c.publication.grace = 0
	tell(c, 11*sec, 1, restarting)
	walk(t, c, 11*sec, 15*sec, "n1 is silent", 2, 3)
	edges(t, c, 15*sec, "D_max", roster.SetOf(1), nobody)
	if c.LeftReason(1) != LeftUnreachable {
		t.Fatal(c.LeftReason(1))
	}
}

// Guard: a node that boots before its absence is noticed has lost its connections, and subscribers must hear of it.
func TestRebootFasterThanDetection(t *testing.T) {
	c := lifeCore(t, 4)
	tell(c, 12*sec, 1, netgossip.Statement{Boot: 7})
	edges(t, c, 12*sec, "another boot", roster.SetOf(1), roster.SetOf(1))
	if c.LeftReason(1) != LeftRebooted {
		t.Fatal(c.LeftReason(1))
	}
	edges(t, c, 12*sec+1, "once only", nobody, nobody)
	tell(c, 11*sec, 1, netgossip.Statement{}) // a late answer of the former boot
	edges(t, c, 12*sec+2, "an older answer", nobody, nobody)
	tell(c, 13*sec, 1, netgossip.Statement{Boot: 7, Version: "other"})
	edges(t, c, 13*sec, "another agent, same boot", nobody, nobody)
}

func TestRebootWithinTheGrace(t *testing.T) {
	c := lifeCore(t, 4)
	tell(c, 11*sec, 1, restarting)
	walk(t, c, 11*sec, 25*sec, "away", 2, 3)
	tell(c, 25*sec, 1, netgossip.Statement{Boot: 7})
	edges(t, c, 25*sec, "back with another boot", roster.SetOf(1), roster.SetOf(1))
}

func TestRebootThatWasLeftMakesOneJoin(t *testing.T) {
	c := lifeCore(t, 4)
	walk(t, c, 11*sec, 14*sec, "n1 is silent", 2, 3)
	edges(t, c, 14*sec, "D_max", roster.SetOf(1), nobody)
	tell(c, 15*sec, 1, netgossip.Statement{Boot: 7})
	edges(t, c, 15*sec, "back with another boot", nobody, roster.SetOf(1))
}

// Guard: two copies of one machine, with one name and one address, answer in turns. That is an alarm, not a series of
// reboots, and does not prove that either is dead.
func TestTwinsAreNoStormOfReboots(t *testing.T) {
	c := lifeCore(t, 4)
	tell(c, 11*sec, 1, netgossip.Statement{Boot: 7})
	edges(t, c, 11*sec, "another boot", roster.SetOf(1), roster.SetOf(1))
	if c.proof.Of(1).Proof != ProofBoot || !c.Twins().IsEmpty() {
		t.Fatalf("it looks like a reboot: %+v, twins %v", c.proof.Of(1), c.Twins())
	}
	for i, boot := range []uint64{101, 7, 101, 7} {
		at := boottime.Instant(12+i) * sec
		for _, p := range []int{2, 3} {
			tell(c, at, p, netgossip.Statement{})
		}
		tell(c, at, 1, netgossip.Statement{Boot: boot})
		edges(t, c, at, "a boot that had ended", nobody, nobody)
		if c.Twins() != roster.SetOf(1) || c.proof.Of(1).Proof != 0 {
			t.Fatalf("twins %v, death %+v", c.cfg.Roster.Names(c.Twins()), c.proof.Of(1))
		}
	}
	tell(c, 16*sec, 1, netgossip.Statement{Boot: 8})
	edges(t, c, 16*sec, "a third boot", roster.SetOf(1), roster.SetOf(1))
	if !c.Twins().IsEmpty() {
		t.Fatal("the alarm does not end")
	}
}

// A peer whose boot is not known, perhaps because of another version, never counts as rebooted.
func TestUnknownBootIsNoReboot(t *testing.T) {
	c := lifeCore(t, 3)
	st := netgossip.Statement{RosterEpoch: c.cfg.Roster.Epoch, RosterDigest: c.cfg.Roster.Digest, Seen: roster.FullSet(3)}
	c.Merger().Answered(netgossip.Answer{Peer: 1, SentAt: 11 * sec, Statement: &st})
	edges(t, c, 11*sec, "boot 0", nobody, nobody)
	tell(c, 12*sec, 1, netgossip.Statement{})
	edges(t, c, 12*sec, "known again", nobody, nobody)
	if !c.Twins().IsEmpty() {
		t.Error("an unknown boot is taken for that of a second machine")
	}
}

// Guard: a node that stops states that no watchdog guards it, because it disarms after its last statement. Otherwise
// its peers would call it dead by time while its pods run.
func TestStoppingNodeDoesNotClaimToBeGuarded(t *testing.T) {
	c := lifeCore(t, 3)
	c.SetGuard(true, 30*time.Second)
	if st := c.Step(11 * sec).Statement; !st.Guard.Armed {
		t.Fatalf("%+v", st.Guard)
	}
	c.Stop()
	if st := c.Step(11*sec + 1).Statement; st.Guard.Armed || !st.Restarting() || st.Leaving() {
		t.Fatalf("stopping: %+v", st)
	}
	c.SetDisarm("file", "a test")
	if st := c.Step(11*sec + 2).Statement; !st.Leaving() || st.Restarting() {
		t.Fatalf("stopping in maintenance: %+v", st)
	}
}

var seedFlag = flag.Uint64("seed", 0, "first seed of the random lives; 0: another each time")

// TestRandomLives runs random lives of peers and checks the meaning of the edges: a subscriber that applies them has
// the available set; a peer that is seen and does not leave is available; a peer that is not seen is available only
// within its grace.
func TestRandomLives(t *testing.T) {
	first := *seedFlag
	if first == 0 {
		first = rand.Uint64()
	}
	for i := range 50 {
		seed := first + uint64(i) // -args -seed starts with this seed
		rnd := rand.New(rand.NewPCG(seed, 1))
		c := lifeCore(t, 6)
		subscriber := c.Available()
		last := make([]netgossip.Statement, 6) // each peer's latest statement
		heard := make([]boottime.Instant, 6)
		for i := range heard {
			heard[i] = 10 * sec
		}
		for at := 10*sec + 1; at < 200*sec; at = at.Add(time.Duration(rnd.Int64N(int64(3 * time.Second)))) {
			for p := 1; p < 6; p++ {
				switch rnd.IntN(12) {
				case 0:
					last[p] = restarting
				case 1:
					last[p] = leaving
				case 2, 3:
					last[p] = netgossip.Statement{Boot: uint64(1 + rnd.IntN(3))}
				case 4, 5, 6, 7, 8, 9:
					continue // not heard this time
				}
				tell(c, at, p, last[p])
				heard[p] = at
			}
			fx := c.Step(at)
			subscriber = subscriber.Minus(fx.Left).Union(fx.Joined)
			if subscriber != fx.Available {
				t.Fatalf("seed %d: a subscriber has %v, the node %v", seed, subscriber, fx.Available)
			}
			for p := 1; p < 6; p++ {
				seen := c.View().Seen.Has(p)
				switch is := fx.Available.Has(p); {
				case seen && is == last[p].Leaving() && at >= c.stall.holdLeft && !c.Flapping().Has(p): // see TestRandomFlaps
					t.Fatalf("seed %d: %d is seen, leaving %v, available %v", seed, p, last[p].Leaving(), is)
				case !seen && is && at >= c.stall.holdLeft && (!last[p].Restarting() || at >= heard[p].Add(testGrace)):
					t.Fatalf("seed %d: %d is available %v after it was heard", seed, p, at.Sub(heard[p]))
				}
			}
		}
	}
}

// Guard: a peer that counts nobody, not even itself, is condemned and could not announce it. It is in contact again
// when a network heals, but is not called JOINed for the seconds that it still runs.
func TestSilentlyCondemnedIsNotAvailable(t *testing.T) {
	for name, c := range map[string]struct {
		st   netgossip.Statement
		want bool // available
	}{
		"condemned":  {netgossip.Statement{Guard: killing}, false},
		"starting":   {netgossip.Statement{}, true}, // the peer is not armed
		"in quorum":  {netgossip.Statement{Guard: killing, View: roster.FullSet(4)}, true},
		"of a half":  {netgossip.Statement{Guard: killing, View: roster.SetOf(1)}, true},
		"other list": {netgossip.Statement{Guard: killing, RosterEpoch: 9}, true},
	} {
		core := lifeCore(t, 4)
		for at := 20 * sec; at < 23*sec; at += sec / 2 { // peer 1 has not been heard since 10 s
			for p := 2; p < 4; p++ {
				tell(core, at, p, netgossip.Statement{View: roster.FullSet(4)})
			}
			if core.Step(at); core.Available().Has(1) && at > 21*sec { // the first step comes late
				t.Fatalf("%s: available before", name)
			}
		}
		for at := 23 * sec; at < 25*sec; at += sec / 2 {
			for p := 2; p < 4; p++ {
				tell(core, at, p, netgossip.Statement{View: roster.FullSet(4)})
			}
			st := c.st
			st.Boot, st.RosterDigest = 101, core.cfg.Roster.Digest
			if st.RosterEpoch == 0 {
				st.RosterEpoch = core.cfg.Roster.Epoch
			}
			core.Merger().Answered(netgossip.Answer{Peer: 1, SentAt: at, Statement: &st})
			core.Step(at)
		}
		if core.Available().Has(1) != c.want {
			t.Errorf("%s: available %v", name, core.Available().Has(1))
		}
	}
}
