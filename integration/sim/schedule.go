package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// RandomSchedule runs one random schedule of partitions, one-way cuts, crashes, pauses, agent restarts, disable files
// and LUN faults on a random group. It returns the group in its final state. With trace every step is printed through
// logf.
func RandomSchedule(seed uint64, trace bool, logf func(format string, args ...any)) *Cluster {
	return randomSchedule(seed, false, trace, logf)
}

// randomSchedule is RandomSchedule; with goesBack the LUN repeatedly goes back to an older state.
func randomSchedule(seed uint64, goesBack, trace bool, logf func(format string, args ...any)) *Cluster {
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	cfg := DefaultConfig([]int{2, 3, 4, 4, 4, 5, 6}[rng.IntN(7)], seed)
	cfg.Devices = 1 + 2*rng.IntN(2)
	cfg.Mode = []watchdog.LUNMode{watchdog.LUNTieBreaker, watchdog.LUNTieBreaker, watchdog.LUNOr, watchdog.LUNAnd}[rng.IntN(4)]
	cfg.drawTimes(rng)
	cfg = cfg.withOutages(seed).withSentences(seed)
	if goesBack {
		cfg.back, cfg.foreign = rand.New(rand.NewPCG(seed, 0xb11)), nil
	}
	return play(cfg, rng, trace, logf)
}

// drawTimes gives half of the groups a short watchdog, so that resets and reboots happen within the schedule. In a
// third of all groups some nodes have other times.
func (c *Config) drawTimes(rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		c.shorten(rng)
	}
	if rng.IntN(3) == 0 {
		c.Odd = c.otherTimes(rng)
	}
}

func (c *Config) shorten(rng *rand.Rand) {
	c.Watchdog, c.Feed, c.Reboot = 6*time.Second, time.Second, time.Duration(5+rng.IntN(30))*time.Second
	c.Timing.Expire = c.Timing.Grant + c.Feed + c.Margin
}

// withOutages adds outages of all networks, and agents from before holds existed.
func (c Config) withOutages(seed uint64) Config {
	rng := rand.New(rand.NewPCG(seed, 0x51e4ce))
	c.outages = rng
	// This draw was for a part that no longer exists; it keeps the schedules of all seeds the same.
	rng.IntN(8)
	c.Strike = rng.IntN(3) == 0
	if rng.IntN(5) == 0 {
		c.Before = 1 + rng.IntN(c.Nodes)
	}
	if dates := rand.New(rand.NewPCG(seed, 0xda7e)); dates.IntN(3) == 0 {
		c.Undated = 1 + dates.IntN(c.Nodes)
	}
	if other := rand.New(rand.NewPCG(seed, 0xb10)); other.IntN(4) == 0 {
		c.foreign = other // a separate source keeps the other schedules the same
	} else if other.IntN(4) == 0 {
		c.back = other
	}
	if c.Mode == watchdog.LUNOr && rng.IntN(5) == 0 {
		c.Others = 1 + rng.IntN(c.Nodes)
	}
	return c
}

// RandomLeaseSchedule is RandomSchedule for a group that has a Lease and no LUN.
func RandomLeaseSchedule(seed uint64, trace bool, logf func(format string, args ...any)) *Cluster {
	rng := rand.New(rand.NewPCG(seed, 0x1ea5e))
	cfg := DefaultConfig([]int{2, 2, 3, 4, 4, 4, 5, 6}[rng.IntN(8)], seed)
	cfg.LUN, cfg.Lease = false, true
	if rng.IntN(2) == 0 {
		cfg.Watchdog, cfg.Feed, cfg.Reboot = 6*time.Second, time.Second, time.Duration(5+rng.IntN(30))*time.Second
	}
	if rng.IntN(3) == 0 {
		cfg.Odd = cfg.otherTimes(rng)
	}
	return play(cfg, rng, trace, logf)
}

// RandomSampledSchedule is RandomSchedule for a group that is large enough for samples.
func RandomSampledSchedule(seed uint64, trace bool, logf func(format string, args ...any)) *Cluster {
	return sampledSchedule(seed, true, trace, logf)
}

// sampledSchedule is a schedule with or without nodes that condemn themselves, which changes the course of each seed.
func sampledSchedule(seed uint64, sentences, trace bool, logf func(format string, args ...any)) *Cluster {
	rng := rand.New(rand.NewPCG(seed, 0x5a3b1e))
	cfg := DefaultConfig(sampledFrom+rng.IntN(5), seed)
	cfg.shorten(rng)
	if rng.IntN(3) == 0 {
		cfg.Odd = cfg.otherTimes(rng)
	}
	if !sentences {
		cfg = cfg.withoutSentences()
	}
	return play(cfg, rng, trace, logf)
}

func play(cfg Config, rng *rand.Rand, trace bool, logf func(format string, args ...any)) *Cluster {
	cfg.Membership = rng.IntN(2) == 0
	cfg.Rumours = []float64{0, 0.01, 0.1}[rng.IntN(3)]
	c := New(cfg)
	if trace {
		logf("%d nodes, %d devices, mode %d, watchdog %v, odd ones %+v", cfg.Nodes, cfg.Devices, cfg.Mode, cfg.Watchdog, cfg.Odd)
		c.Trace(func(format string, args ...any) { logf("%8v "+format, append([]any{c.Now()}, args...)...) })
	}
	c.Run(time.Duration(rng.IntN(15)) * time.Second)
	for range 25 {
		if cfg.outages != nil && (cfg.outages.IntN(6) == 0 || cfg.often && cfg.outages.IntN(3) == 0) {
			c.Heal()
			c.Silence()
		} else {
			disturb(c, rng)
		}
		if cfg.foreign != nil {
			c.turnOver(cfg.foreign)
		}
		if cfg.back != nil {
			c.goesBack(cfg.back)
		}
		lull := 12 * time.Second
		if rng.IntN(4) == 0 {
			lull = c.longest() + 12*time.Second // long enough to prove a death, also by claims without a date
		}
		c.Run(time.Duration(rng.Int64N(int64(lull))))
	}
	return c
}

// otherTimes draws times that differ from those of the configuration. Each term is drawn separately, from a third of
// its value to three times its value, within the limits of a configuration file.
func (c *Config) otherTimes(rng *rand.Rand) *Times {
	scale := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) * (1 + 2*rng.Float64()) / (1 + 2*rng.Float64())).Round(time.Millisecond)
	}
	t := c.Timing
	t.Heartbeat, t.MaxAge = scale(t.Heartbeat), scale(t.MaxAge)
	t.IOTimeout = max(2*t.Heartbeat, scale(t.IOTimeout))
	t.Grant, t.Arbitrate = max(t.MaxAge, 3*t.Heartbeat+t.IOTimeout), 4*t.Heartbeat+3*t.IOTimeout
	t.PreferenceDelay, t.Stagger = 2*t.Heartbeat, t.Heartbeat
	o := &Times{Timing: t, Watchdog: max(2*time.Second, scale(c.Watchdog).Round(time.Second))}
	o.Feed = min(scale(c.Feed), o.Watchdog/2-time.Millisecond)
	o.Timing.Expire = t.Grant + o.Feed + c.Margin
	return o
}

func (c *Cluster) longest() time.Duration {
	d := c.cfg.Budget().Horizon()
	if c.cfg.Odd != nil {
		d = max(d, c.cfg.budget(c.cfg.Odd).Horizon())
	}
	return d
}

func disturb(c *Cluster, rng *rand.Rand) {
	n, what := len(c.nodes), rng.IntN(22)
	if c.kube != nil && slices.Contains([]int{9, 10, 14, 16}, what) {
		c.kube.disturb(rng)
		return
	}
	switch what {
	case 0, 1, 2:
		c.Heal()
		c.Split(randomGroups(rng, n))
	case 3:
		c.Heal()
	case 4:
		c.Split(randomGroups(rng, n), rng.IntN(len(c.cfg.Networks)))
	case 5:
		if a, b := rng.IntN(n), rng.IntN(n); a != b {
			c.CutOneWay(a, b)
		}
	case 6:
		c.Kill(rng.IntN(n))
	case 7:
		for i := range n {
			c.Start(i)
		}
	case 8:
		c.RestartAgent(rng.IntN(n))
	case 9:
		c.LUNFaults(rng.IntN(n), &Faults{
			Down: rng.IntN(3) == 0, Hung: rng.IntN(4) == 0, Slow: time.Duration(rng.Int64N(int64(20 * time.Second))),
			Fail: rng.Float64() / 2, LateOf: rng.Float64(), LateBy: 20 * time.Second, TornOf: rng.Float64() / 2, Writes: rng.IntN(3) == 0,
		}, c.someDevices(rng)...)
	case 10:
		for i := range n {
			c.LUNFaults(i, nil)
		}
	case 11:
		c.LinkDown(rng.IntN(n), rng.IntN(len(c.cfg.Networks)), rng.IntN(2) == 0)
	case 12:
		c.Pause(rng.IntN(n))
	case 13:
		for i := range n {
			c.Resume(i)
		}
	case 15:
		c.Disable(rng.IntN(n), rng.IntN(2) == 0)
	case 14:
		// One half of the nodes loses the LUN or some of its devices, or can only read them, while the network is split into
		// different halves.
		p := rng.Perm(n)
		for _, i := range p[:n/2] {
			c.LUNFaults(i, &Faults{Down: true, Writes: rng.IntN(2) == 0}, c.someDevices(rng)...)
		}
		c.Heal()
		p = rng.Perm(n)
		c.Split([][]int{p[:n/2], p[n/2:]})
	case 16:
		c.loseDevice(rng)
	case 19, 20:
		c.SetWeather(rng.IntN(len(c.cfg.Networks)), Weather{
			Loss: max(0, rng.Float64()-0.5), Slow: []time.Duration{0, 300 * time.Millisecond, 6 * time.Second}[rng.IntN(3)],
		})
	case 21:
		for k := range c.cfg.Networks {
			c.SetWeather(k, Weather{})
		}
	case 17, 18:
		// The network heals in pieces: one node reaches some of the others again.
		a, some := rng.IntN(n), rng.IntN(2) == 0
		for b := range n {
			if b != a && (!some || rng.IntN(2) == 0) {
				c.Mend(a, b)
			}
		}
	}
}

// loseDevice takes one device away from all nodes, or makes it hang.
func (c *Cluster) loseDevice(rng *rand.Rand) {
	d := rng.IntN(len(c.lun.images))
	f := Faults{Down: true}
	if rng.IntN(2) == 0 {
		f = Faults{Hung: true}
	}
	for i := range c.nodes {
		c.LUNFaults(i, &f, d)
	}
}

// someDevices draws some of the LUN's devices, sometimes all.
func (c *Cluster) someDevices(rng *rand.Rand) []int {
	p := rng.Perm(len(c.lun.images))
	return p[:1+rng.IntN(len(p))]
}

// randomGroups cuts the nodes into two or three parts.
func randomGroups(rng *rand.Rand, n int) [][]int {
	groups := make([][]int, 2+rng.IntN(2))
	for i := range n {
		g := rng.IntN(len(groups))
		groups[g] = append(groups[g], i)
	}
	return groups
}
