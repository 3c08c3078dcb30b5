package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// unfired returns a core of five that has called the last node dead by time, and has then heard the same boot again.
func unfired(t *testing.T) (c *Core, now time.Duration) {
	t.Helper()
	c = mourners(t, netgossip.Statement{Guard: killing}, nil)
	at := mourn(c, 11*time.Second, 2*time.Minute, roster.SetOf(4), 1, 2, 3)
	if at == 0 {
		t.Fatal("not dead by time")
	}
	for d := at + time.Second; d <= at+20*time.Second; d += time.Second {
		tell(c, boottime.Instant(d), 4, netgossip.Statement{Guard: killing})
		mourn(c, d, d, roster.Set{}, 1, 2, 3)
	}
	return c, at + 20*time.Second
}

func says(c *Core, kind netgossip.FactKind, name string, boot uint64) bool {
	for _, f := range c.fx.Statement.Facts {
		if f.Kind == kind && f.Name == netgossip.NameDigest(name) && f.Boot == boot {
			return true
		}
	}
	return false
}

// Guard: L9, P9. If a watchdog did not fire after the horizon, no sentence proves its boot dead either, and others are
// told.
func TestWatchdogThatDidNotFireProvesNothing(t *testing.T) {
	c, at := unfired(t)
	if !says(c, netgossip.FactUnfired, "n0004", 104) || says(c, netgossip.FactContradicted, "n0004", 104) {
		t.Errorf("handed on: %+v", c.fx.Statement.Facts)
	}
	if c.fx.Statement.Guarded.Has(4) {
		t.Error("it is taken for guarded")
	}
	s := byLUN(c, 104, time.Second)
	c.proof.sentencedByLUN(boottime.Instant(at+time.Second), &s)
	if got := pass(c, boottime.Instant(at+time.Second), boottime.Instant(at+20*time.Second)); got != 0 || c.proof.Of(4) != (Death{}) {
		t.Errorf("called dead by a sentence at %v: %+v", time.Duration(got), c.proof.Of(4))
	}
	at += 20 * time.Second
	if got := mourn(c, at+time.Second, at+2*time.Minute, roster.SetOf(4), 1, 2, 3); got != 0 {
		t.Errorf("called dead at %v: %+v", got, c.proof.Of(4))
	}
}

// Reports from outside do not depend on the watchdog.
func TestWatchdogThatDidNotFireAndAWordFromOutside(t *testing.T) {
	c, at := unfired(t)
	now := boottime.Instant(at)
	pass(c, now+sec, now+30*sec)
	c.proof.Tell(1, Word{Node: "n0004", Death: Death{Boot: 104, Proof: ProofOperator}})
	if got := pass(c, now+31*sec, now+90*sec); got == 0 || c.proof.Of(4).Proof != ProofOperator {
		t.Errorf("an operator vouches that it is off: %v, %+v", time.Duration(got), c.proof.Of(4))
	}
}

// Guard: a node that was absent when a watchdog did not fire learns it from others, and passes it on. This ends a
// pending sentence.
func TestWatchdogThatDidNotFireIsHandedOn(t *testing.T) {
	for name, tc := range map[string]struct {
		boot uint64
		want bool // time proves the death
	}{"of that boot": {104, false}, "of the boot before": {103, true}} {
		c := mourners(t, netgossip.Statement{Guard: killing}, nil)
		got := time.Duration(0)
		s := byLUN(c, 104, time.Second)
		c.proof.sentencedByLUN(11*sec, &s)
		for d := 11 * time.Second; d <= 2*time.Minute && got == 0; d += time.Second {
			at, lost := boottime.Instant(d), roster.Set{}
			put(&lost, 4, d > testHorizon)
			tell(c, at, 1, netgossip.Statement{Guard: killing, Facts: handed(netgossip.FactUnfired, tc.boot, 0), Lost: lost})
			got = mourn(c, d, d, lost, 2, 3)
		}
		if (got != 0) != tc.want || says(c, netgossip.FactUnfired, "n0004", 104) == tc.want {
			t.Errorf("%s: dead at %v: %+v; handed on %+v", name, got, c.proof.Of(4), c.fx.Statement.Facts)
		}
	}
}

// Guard: a node whose watchdog did not fire states no horizon any more, whatever the feeder does next, and states the
// reason.
func TestOwnWatchdogDidNotFire(t *testing.T) {
	rig := func(boot uint64) *Core {
		return testCore(t, 4, func(cfg *Config) {
			cfg.Boot, cfg.Budget = boot, Budget{MaxAge: 4 * time.Second}.WithWatchdog(10*time.Second)
		})
	}
	c := rig(100)
	c.SetGuard(true, 10*time.Second)
	c.GuardFailed()
	hear(c, 10*sec, 1, 2, 3)
	c.Step(10 * sec)
	c.SetGuard(false, 0)
	c.SetGuard(true, 10*time.Second)
	hear(c, 11*sec, 1, 2, 3)
	if st := c.Step(11 * sec).Statement; st.Guard.Kills() || st.Guard.Horizon != 0 || !st.Guard.Armed || !says(c, netgossip.FactUnfired, "n0000", 100) {
		t.Errorf("%+v, %+v", st.Guard, st.Facts)
	}
	// The next agent learns this from the nodes that have heard it; it only applies to this boot.
	for _, boot := range []uint64{100, 200} {
		c := rig(boot)
		c.SetGuard(true, 10*time.Second)
		fact := netgossip.Fact{Kind: netgossip.FactUnfired, Name: netgossip.NameDigest("n0000"), Boot: 100}
		for at := 10 * sec; at < 12*sec; at += sec / 2 {
			hear(c, at, 2, 3)
			tell(c, at, 1, netgossip.Statement{Guard: killing, Facts: [netgossip.MaxFacts]netgossip.Fact{fact}})
			c.Step(at)
		}
		if kills := c.fx.Statement.Guard.Kills(); kills == (boot == 100) {
			t.Errorf("boot %d: it takes itself for guarded: %v", boot, kills)
		}
	}
}

// Guard: an agent finds in the slot that the agent before it, in the same boot, has observed that the watchdog did not
// fire.
func TestOwnSlotSaysThatTheWatchdogDidNotFire(t *testing.T) {
	silent := netgossip.Guard{Armed: true, Fences: true, Timeout: 10 * time.Second}
	untold := netgossip.Guard{Armed: true, Fences: true}
	for name, tc := range map[string]struct {
		boot     uint64
		guard    netgossip.Guard
		lifetime time.Duration
		want     bool // the watchdog is known not to fire
	}{
		"did not fire": {100, silent, time.Second, true}, "in another boot": {99, silent, time.Second, false},
		"fires": {100, killing, time.Second, false}, "a driver that does not tell its timeout": {100, untold, time.Second, false},
		"an agent from before there were horizons": {100, silent, 0, false},
	} {
		r := withSlots(t, testCore(t, 4, func(c *Config) { c.LUN, c.Boot = true, 100 }))
		r.lifetime = tc.lifetime
		r.put(0, diskquorum.SlotActive, 8, netgossip.Statement{Boot: tc.boot, Guard: tc.guard})
		r.run(10*sec, 15*sec, netgossip.Statement{Guard: killing}, 1, 2, 3)
		if r.SetGuard(true, 10*time.Second); r.unfired != tc.want {
			t.Errorf("%s: %+v", name, r.guard)
		}
	}
}

// For a death that this node already knows, ProvenIn returns no time.
func TestKnownDeathIsNotDue(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	pass(c, 11*sec, 19*sec)
	if _, due := c.proof.ProvenIn(19*sec, 4); !due {
		t.Fatal("its death is due by time")
	}
	s := byLUN(c, 104, time.Second)
	c.proof.sentencedByLUN(20*sec, &s)
	at := pass(c, 20*sec, 30*sec)
	if in, due := c.proof.ProvenIn(at, 4); at == 0 || due {
		t.Errorf("FENCED at %v by a sentence, and dead for certain in %v", time.Duration(at), in)
	}
}

// Guard: M1. This node's claims end in the very step in which it does not live, and not in the next one.
func TestGapEndsClaimsAtOnce(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	for d := 11 * time.Second; !c.proof.lost.Has(4); d += time.Second {
		if mourn(c, d, d, nobody, 1, 2, 3); d > 2*time.Minute {
			t.Fatal("nothing is claimed")
		}
	}
	if c.proof.gap(2 * 60 * sec); !c.proof.lost.IsEmpty() {
		t.Errorf("claimed still: %v", c.proof.lost)
	}
}
