package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// stallSchedule repeatedly pauses a node of a sampled group, for less than its watchdog's timeout, and often cuts it
// off meanwhile, alone or with a few others.
func stallSchedule(seed uint64, trace bool, logf func(format string, args ...any)) *Cluster {
	rng := rand.New(rand.NewPCG(seed, 0x57a11))
	cfg := DefaultConfig(sampledFrom+rng.IntN(5), seed)
	cfg.Watchdog, cfg.Feed = 15*time.Second, time.Second
	cfg.Timing.Expire = cfg.Timing.Grant + cfg.Feed + cfg.Margin
	cfg.Membership = rng.IntN(2) == 0
	c := New(cfg)
	if trace {
		c.Trace(func(format string, args ...any) { logf("%8v "+format, append([]any{c.Now()}, args...)...) })
	}
	c.Run(time.Duration(8+rng.IntN(8)) * time.Second)
	for range 6 {
		victim := rng.IntN(cfg.Nodes)
		with := rng.Perm(cfg.Nodes)[:rng.IntN(cfg.Nodes/2)]
		c.Run(time.Duration(rng.Int64N(int64(time.Second))))
		stall := time.Duration(100+rng.IntN(9000)) * time.Millisecond
		before := time.Duration(rng.Int64N(int64(stall)))
		c.Pause(victim)
		c.Run(before)
		group := []int{victim}
		for _, i := range with {
			if i != victim {
				group = append(group, i)
			}
		}
		if rng.IntN(4) > 0 {
			c.Split([][]int{group}, 0, 1)
		}
		c.Run(stall - before)
		c.Resume(victim)
		c.Run(time.Duration(rng.Int64N(int64(7 * time.Second))))
		c.Heal()
		c.Run(time.Duration(5+rng.IntN(20)) * time.Second)
	}
	return c
}

// Guard: a node that was paused does not trust old evidence of its peers longer than one that was not.
func TestStallsOfSampledNodes(t *testing.T) {
	b := asked(t, 60, 20, 5)
	vouches, stretched := 0, 0
	b.play(t, stallSchedule, func(_ uint64, c *Cluster) {
		vouches, stretched = vouches+c.check.Vouches, stretched+c.check.Stretched
	})
	t.Logf("%d schedules from seed %d, 0 violations; %d vouches; %d steps with a quorum that lasted a little longer than allowed", b.runs, b.base, vouches, stretched)
	if b.runs >= 20 && vouches == 0 {
		t.Error("no vouch: the schedules prove nothing")
	}
}
