package sim

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// timed is a group of n nodes with the times of a preset.
func timed(preset config.Timing, n, devices int, seed uint64) Config {
	f := config.ForTiming(preset, n, true)
	c := DefaultConfig(n, seed)
	c.Times = Times{Feed: f.Watchdog.FeedInterval, Watchdog: f.Watchdog.Timeout, Timing: diskquorum.Timing{
		Heartbeat: f.LUN.HeartbeatInterval, IOTimeout: f.LUN.IOTimeout, MaxAge: f.EvidenceMaxAge(), Grant: f.GrantLifetime(),
		Arbitrate: f.ArbitrationBudget(), Expire: f.GrantExpiry(0), PreferenceDelay: f.PreferenceDelay(), Stagger: f.RankStagger(),
		Takeover: f.TakeoverDelay(),
	}}
	c.Evidence, c.Devices = f.Params().EvidenceInterval, devices
	c.Sentence = watchdog.Sentencing{After: f.Watchdog.SentenceAfter, Timeout: time.Second, Strike: f.LUN.IOTimeout}
	return c
}

// slowSplit is the result of an equal split over a slow LUN.
type slowSplit struct {
	*Cluster
	fed     []int         // the nodes that feed in the end
	verdict time.Duration // from the cut until only one half feeds, and feeds by a grant; 0: never
	ballots []diskquorum.Attempt
	starved bool // before that, fewer than half of the nodes fed for a moment
}

// splitSlowly cuts a group in half while each I/O of each node takes the given time. With again every agent is
// restarted first, so that ballots use both copies.
func splitSlowly(cfg Config, takes time.Duration, again bool) slowSplit {
	r := slowSplit{Cluster: New(cfg)}
	halves := make([][]int, 2)
	for i := range cfg.Nodes {
		halves[i*2/cfg.Nodes] = append(halves[i*2/cfg.Nodes], i)
	}
	r.Run(20 * time.Second)
	for i := range cfg.Nodes {
		if again {
			r.RestartAgent(i)
			r.Run(8 * time.Second)
		}
	}
	for i := range cfg.Nodes {
		r.LUNFaults(i, &Faults{Takes: takes})
	}
	r.Run(40*time.Second + 20*takes + time.Duration(r.rng.Int64N(int64(time.Second))))
	before, cut := len(r.Attempts()), r.Now()
	r.Split(halves)
	for end := cut + cfg.Budget().Tie() + 10*time.Second; r.Now() < end; {
		r.Run(20 * time.Millisecond)
		if r.verdict > 0 {
			continue
		}
		r.fed = r.Feeding()
		r.starved = r.starved || len(r.fed) < cfg.Nodes/2
		if (slices.Equal(r.fed, halves[0]) || slices.Equal(r.fed, halves[1])) &&
			!slices.ContainsFunc(r.fed, func(i int) bool { return r.reason(i) != watchdog.ReasonSplitWon }) {
			r.verdict, r.ballots = r.Now()-cut, r.Attempts()[before:]
		}
	}
	r.fed = r.Feeding()
	return r
}

func (r *slowSplit) ios() (n int) {
	for _, a := range r.ballots {
		n += a.IOs
	}
	return n
}

// slowest returns the I/O time up to which an equal split leaves one half alive with every timing: five eighths of
// lun.ioTimeout. With a longer I/O the grant may come after the watchdogs have fired.
func slowest(f *config.Config) time.Duration { return f.LUN.IOTimeout * 5 / 8 }

// Survival: for any duration of an I/O up to five eighths of lun.ioTimeout, an equal split leaves exactly one half alive.
// That half feeds without a pause if no I/O takes longer than "fencectl config timing" states. SLOWLUN=10 plays ten
// splits of each kind, and prints the table of docs/measurements/verification.md.
func TestSlowLUNDecidesASplit(t *testing.T) {
	runs, _ := strconv.Atoi(os.Getenv("SLOWLUN"))
	for _, devices := range []int{1, 3} {
		for _, preset := range config.Timings() {
			for _, ms := range []int{0, 100, 300, 500, 700, 1000, 1500, 2000} {
				takes, f := time.Duration(ms)*time.Millisecond, config.ForTiming(preset, 4, true)
				if takes > slowest(f) && runs == 0 {
					continue
				}
				slowRow(t, timed(preset, 4, devices, uint64(ms)), fmt.Sprintf("%d %-7s %4d ms", devices, preset, ms), takes, max(2, 2*runs), f)
			}
		}
	}
}

// Survival: the same holds for groups of other sizes. SLOWLUN=5 adds larger groups, for another table in that document.
// It also splits the largest group that can be cut in half once for each row, without fresh slots, which takes one core
// about ten minutes.
func TestSlowLUNDecidesASplitOfAnyGroup(t *testing.T) {
	runs, _ := strconv.Atoi(os.Getenv("SLOWLUN"))
	for _, n := range []int{2, 16, 64, 254} {
		for _, ms := range []int{0, 300, 1000} {
			if runs == 0 && n > 2 {
				continue
			}
			cfg := timed(config.TimingDefault, n, 1, uint64(ms))
			splits := max(2, 2*runs)
			if n == 254 {
				splits = 1
			}
			slowRow(t, cfg, fmt.Sprintf("%d nodes, %4d ms", n, ms), time.Duration(ms)*time.Millisecond, splits, config.ForTiming(config.TimingDefault, n, true))
		}
	}
}

func slowRow(t *testing.T, cfg Config, what string, takes time.Duration, splits int, f *config.Config) {
	t.Helper()
	var verdicts []time.Duration
	ballots, ios, starved := 0, 0, 0
	for run := range splits {
		cfg.Seed++
		r := splitSlowly(cfg, takes, run%2 == 1)
		one := r.verdict > 0 && len(r.fed) == cfg.Nodes/2 && r.Resets() == cfg.Nodes/2
		if r.verdict > 0 && one {
			verdicts, ballots, ios = append(verdicts, r.verdict), ballots+len(r.ballots), ios+r.ios()
		}
		if r.starved {
			starved++
		}
		switch {
		case !one && takes <= slowest(f):
			t.Errorf("%s, seed %d: fed %v, verdict %v, %d resets\n%s", what, cfg.Seed, r.fed, r.verdict, r.Resets(), r.Report())
		case r.starved && takes <= f.SlowestIO():
			t.Errorf("%s, seed %d: too few nodes fed for a moment, until %v after the cut", what, cfg.Seed, r.verdict)
		}
		noViolations(t, r.Cluster)
	}
	if slices.Sort(verdicts); len(verdicts) > 0 {
		k := len(verdicts)
		t.Logf("%s: one half lives in %d of %d, after %.2f s, p99 %.2f s, %.2f s at most; %d starved for a moment; %.1f ballots, %.1f I/Os", what, k, splits,
			verdicts[k/2].Seconds(), verdicts[k*99/100].Seconds(), verdicts[k-1].Seconds(), starved, float64(ballots)/float64(k), float64(ios)/float64(k))
	} else {
		t.Logf("%s: no half lives in %d runs", what, splits)
	}
}

// Survival: half of the group loses its power at once, over a slow LUN. Its slots no longer change, wherever in ten
// writes and a read the nodes were when they died, and the others do not wait for them for longer than they can. The
// others live if an I/O takes five eighths of lun.ioTimeout, and feed without a pause at nine tenths of what
// "fencectl config timing" states.
func TestSlowLUNDecidesForTheHalfThatLives(t *testing.T) {
	for _, preset := range config.Timings() {
		for _, n := range []int{2, 4} {
			f := config.ForTiming(preset, n, true)
			for _, takes := range []time.Duration{0, f.SlowestIO() / 2, f.SlowestIO() * 9 / 10, slowest(f)} {
				for seed := range uint64(3) {
					loseHalfSlowly(t, timed(preset, n, 1, seed), fmt.Sprintf("%s, %d nodes, %v, seed %d", preset, n, takes, seed), takes, f)
				}
			}
		}
	}
}

func loseHalfSlowly(t *testing.T, cfg Config, what string, takes time.Duration, f *config.Config) {
	t.Helper()
	c, starved, half := New(cfg), false, cfg.Nodes/2
	c.Run(20 * time.Second)
	for i := range cfg.Nodes {
		c.RestartAgent(i) // so that ballots use both copies
		c.Run(8 * time.Second)
	}
	for i := range cfg.Nodes {
		c.LUNFaults(i, &Faults{Takes: takes})
	}
	c.Run(40*time.Second + (20+[]time.Duration{0, 6, 10}[cfg.Seed])*takes)
	for i := half; i < cfg.Nodes; i++ {
		c.Kill(i)
	}
	for end := c.Now() + f.Budget(f.Watchdog.Timeout).Tie() + 5*time.Second; c.Now() < end; c.Run(50 * time.Millisecond) {
		starved = starved || len(c.Feeding()) < half
	}
	if fed := c.Feeding(); len(fed) != half || fed[half-1] != half-1 || c.Resets() != half || starved && takes <= f.SlowestIO() {
		t.Errorf("%s: fed %v, %d resets, starved %v\n%s", what, fed, c.Resets(), starved, c.Report())
	}
	noViolations(t, c)
}

// Survival: the hold works on a LUN that is fast enough to decide a split. In an outage of all networks no node is
// reset, and none starves.
func TestSlowLUNHolds(t *testing.T) {
	for _, preset := range config.Timings() {
		for _, tenths := range []int{2, 5, 8, 10, 12, 15} {
			f := config.ForTiming(preset, 4, true)
			takes := f.SlowestIO() * time.Duration(tenths) / 10
			c := New(timed(preset, 4, 1, uint64(tenths)))
			c.Run(20 * time.Second)
			for i := range 4 {
				c.LUNFaults(i, &Faults{Takes: takes})
			}
			c.Run(40*time.Second + 20*takes)
			c.Silence()
			starved := 0
			for range 1800 {
				if c.Run(100 * time.Millisecond); len(c.Feeding()) < 4 {
					starved++
				}
			}
			t.Logf("%s, %v: %d resets, not all nodes fed for %d s of 180", preset, takes, c.Resets(), starved/10)
			if tenths <= 10 && (c.Resets() > 0 || starved > 0) {
				t.Errorf("%s, %v: %d resets, not all nodes fed in %d checks\n%s", preset, takes, c.Resets(), starved, c.Report())
			}
			noViolations(t, c)
		}
	}
}
