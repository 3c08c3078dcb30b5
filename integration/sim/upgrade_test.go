package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// halfUpgraded is a group with a LUN whose even nodes have the preset default, and whose odd nodes have it as it was before
// groups with a LUN had a shorter one. A node that was reset is back after the time; 0: never.
func halfUpgraded(n int, seed uint64, reboot time.Duration) Config {
	cfg := timed(config.TimingDefault, n, 1, seed)
	cfg.Reboot = reboot
	odd := Times{Timing: cfg.Timing, Feed: 5 * time.Second, Watchdog: 30 * time.Second}
	odd.Timing.Expire = odd.Timing.Grant + odd.Feed + cfg.Margin
	cfg.Odd = &odd
	return cfg
}

// Guard: while an upgrade is rolled out, each node is waited for as long as it has stated itself: a crash costs less as soon as
// the node that crashed is upgraded, even if nodes that are not wait for it.
func TestACrashCostsWhatTheCrashedNodeHas(t *testing.T) {
	for victim, least := range []time.Duration{20 * time.Second, 60 * time.Second} { // twice W
		c := started(t, halfUpgraded(4, uint64(victim), 0))
		horizon := c.cfg.budget(c.times(c.nodes[victim])).Horizon()
		at := c.Now()
		c.Kill(victim)
		mustRun(t, c, "n3 proves the death", c.cfg.Timing.MaxAge+horizon+watchdog.ProofDelay+2*c.cfg.Evidence, c.proves(2, victim))
		if took := c.Now() - at; took < least {
			t.Errorf("n%d was proven dead after %v, and its watchdog may fire after %v", victim+1, took, least)
		}
		mustRun(t, c, "n4 proves the death", 2*c.cfg.Evidence+watchdog.ProofDelay, c.proves(3, victim))
		noViolations(t, c)
	}
}

func upgradeSchedule(seed uint64, trace bool, logf func(format string, args ...any)) *Cluster {
	rng := rand.New(rand.NewPCG(seed, 0x0b9))
	return play(halfUpgraded(2+rng.IntN(5), seed, time.Duration(5+rng.IntN(60))*time.Second), rng, trace, logf)
}

// Guard: nobody is called dead before its watchdog has fired, and no two halves live, in a group with both presets.
func TestSchedulesOfAnUpgrade(t *testing.T) {
	b, proven := asked(t, 60, 20, 5), 0
	b.play(t, upgradeSchedule, func(_ uint64, c *Cluster) { proven += c.Proofs()[watchdog.ProofTime] })
	t.Logf("%d schedules from seed %d, 0 violations; %d proofs by time", b.runs, b.base, proven)
	if b.runs >= 20 && proven == 0 {
		t.Error("no proof by time: the schedules show nothing")
	}
}
