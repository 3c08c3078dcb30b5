package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

var cutsTable = flag.Bool("cuts.table", false, "print the table of transient cuts of docs/measurements/tuning.md (some minutes)")

// preset is a timing of the configuration, or one that is being considered.
type preset struct {
	name   string
	timing config.Timing
	feed   time.Duration // replaces the timing's feed interval unless 0
	w      time.Duration
}

var presets = []preset{
	{"`fast`", config.TimingFast, 0, 0},
	{"`default`", config.TimingDefault, 0, 0},
	{"`careful`", config.TimingCareful, 0, 0},
	{"`default`, F 1 s", config.TimingDefault, time.Second, 0},
	{"`default`, F 1 s, W 20 s", config.TimingDefault, time.Second, 20 * time.Second},
	{"`default`, F 1 s, W 10 s", config.TimingDefault, time.Second, 10 * time.Second},
}

// simulated returns the configuration of a simulated group with the preset.
func (p *preset) simulated(nodes int, lun bool, seed uint64) Config {
	c := config.ForTiming(p.timing, nodes)
	if p.feed > 0 {
		c.Watchdog.FeedInterval = p.feed
	}
	if p.w > 0 {
		c.Watchdog.Timeout = p.w
	}
	cfg := DefaultConfig(nodes, seed)
	cfg.LUN, cfg.Feed, cfg.Watchdog = lun, c.Watchdog.FeedInterval, c.Watchdog.Timeout
	cfg.Timing = diskquorum.Timing{
		Heartbeat: c.LUN.HeartbeatInterval, IOTimeout: c.LUN.IOTimeout, MaxAge: c.EvidenceMaxAge(),
		Grant: c.GrantLifetime(), Arbitrate: c.ArbitrationBudget(), Expire: c.GrantExpiry(0),
		PreferenceDelay: c.PreferenceDelay(), Stagger: c.RankStagger(), Takeover: c.GrantLifetime() + 10*c.LUN.HeartbeatInterval,
	}
	cfg.Evidence = min(netgossip.Tune(nodes).EvidenceInterval, c.EvidenceMaxAge()/4)
	cfg.Sentence = watchdog.Sentencing{After: c.Watchdog.SentenceAfter, Timeout: config.SentenceTimeout, Strike: c.LUN.IOTimeout}
	return cfg
}

// cut is a fault of all networks that ends by itself.
type cut struct {
	name  string
	nodes int
	lun   bool
	make  func(*Cluster)
}

var cuts = []cut{
	{"outage of all, LUN", 4, true, (*Cluster).Silence},
	{"outage of all, no LUN", 3, false, (*Cluster).Silence},
	{"one of 5 cut off, LUN", 5, true, func(c *Cluster) { c.Split([][]int{{0, 1, 2, 3}, {4}}) }},
	{"one of 5 cut off, no LUN", 5, false, func(c *Cluster) { c.Split([][]int{{0, 1, 2, 3}, {4}}) }},
	{"2 \\| 2, LUN", 4, true, func(c *Cluster) { c.Split([][]int{{0, 1}, {2, 3}}) }},
}

// transient makes the cut for a while and returns how many nodes it reset.
func transient(t *testing.T, p *preset, k *cut, lasts time.Duration, seed uint64) int {
	t.Helper()
	c := New(p.simulated(k.nodes, k.lun, seed))
	if !c.RunUntil(time.Minute, func() bool { return len(c.Feeding()) == k.nodes }) {
		t.Fatalf("%s, %s: not all feed:\n%s", p.name, k.name, c.Report())
	}
	// Each seed makes the cut in another phase of the feeds.
	c.Run(20*time.Second + time.Duration(seed)*631*time.Millisecond)
	k.make(c)
	c.Run(lasts)
	c.Heal()
	c.Run(c.cfg.Watchdog + 5*time.Second)
	noViolations(t, c)
	return c.Resets()
}

// Guard: what the documents promise about cuts that end by themselves. With -cuts.table the test prints, for each
// preset, how many of ten cuts reset a node, and how many nodes they reset.
func TestTransientCuts(t *testing.T) {
	if !*cutsTable {
		for _, k := range cuts {
			if got := transient(t, &presets[1], &k, 8*time.Second, 1); got != 0 {
				t.Errorf("%s for 8 s with the defaults: %d resets", k.name, got)
			}
		}
		return
	}
	lengths := []time.Duration{3, 5, 8, 10, 15, 20}
	for _, k := range cuts {
		for _, p := range presets {
			row := []string{k.name, p.name}
			for _, s := range lengths {
				runs, nodes := 0, 0
				for seed := range uint64(10) {
					if n := transient(t, &p, &k, s*time.Second, seed); n > 0 {
						runs, nodes = runs+1, nodes+n
					}
				}
				if row = append(row, fmt.Sprint(runs)); nodes != runs {
					row[len(row)-1] = fmt.Sprintf("%d (%d nodes)", runs, nodes)
				}
			}
			fmt.Println("| " + strings.Join(row, " | ") + " |")
		}
	}
}
