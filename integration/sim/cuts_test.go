package sim

import (
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

var (
	cutsTable = flag.Bool("cuts.table", false, "print the table of transient cuts and stalls of docs/measurements/tuning.md (some minutes)")
	cutsOf    = flag.String("cuts.of", "", "only the rows of that table that match this regular expression")
)

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
	{"`fast`, F 1 s, W 5 s", config.TimingFast, time.Second, 5 * time.Second},
	{"`default`, F 1 s, W 10 s", config.TimingDefault, time.Second, 10 * time.Second},
	{"`default`, F 1 s, W 20 s", config.TimingDefault, time.Second, 20 * time.Second},
	{"`default`, F 5 s, W 30 s", config.TimingDefault, 5 * time.Second, 30 * time.Second},
}

// simulated returns the configuration of a simulated group with the preset.
func (p *preset) simulated(nodes int, lun bool, seed uint64) Config {
	c := config.ForTiming(p.timing, nodes, lun)
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

// cut is a fault of all networks, or of a node, that ends by itself.
type cut struct {
	name  string
	nodes int
	lun   bool
	make  func(*Cluster)
	end   func(*Cluster)
}

var cuts = []cut{
	{"outage of all, LUN", 4, true, (*Cluster).Silence, (*Cluster).Heal},
	{"outage of all, no LUN", 3, false, (*Cluster).Silence, (*Cluster).Heal},
	{"one of 5 cut off, LUN", 5, true, lastOfFive, (*Cluster).Heal},
	{"one of 5 cut off, no LUN", 5, false, lastOfFive, (*Cluster).Heal},
	{"2 \\| 2, LUN", 4, true, func(c *Cluster) { c.Split([][]int{{0, 1}, {2, 3}}) }, (*Cluster).Heal},
	{"one of 5 stands still, LUN", 5, true, func(c *Cluster) { c.Pause(4) }, func(c *Cluster) { c.Resume(4) }},
	{"one of 5 stands still, no LUN", 5, false, func(c *Cluster) { c.Pause(4) }, func(c *Cluster) { c.Resume(4) }},
	{"outage of all, and of the LUN", 4, true, func(c *Cluster) { c.Silence(); c.unplug(0, 1, 2, 3) }, func(c *Cluster) { c.Heal(); c.plugIn() }},
	{"one of 5 cut off, and from the LUN", 5, true, func(c *Cluster) { lastOfFive(c); c.unplug(4) }, func(c *Cluster) { c.Heal(); c.plugIn() }},
}

func lastOfFive(c *Cluster) { c.Split([][]int{{0, 1, 2, 3}, {4}}) }

func (c *Cluster) unplug(nodes ...int) {
	for _, i := range nodes {
		c.LUNFaults(i, &Faults{Hung: true})
	}
}

func (c *Cluster) plugIn() {
	for i := range c.nodes {
		c.LUNFaults(i, nil)
	}
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
	k.end(c)
	c.Run(c.cfg.Watchdog + 5*time.Second)
	noViolations(t, c)
	return c.Resets()
}

// Guard: what the documents promise about cuts and stalls that end by themselves: eight seconds cost no reset with the
// defaults, nor do three with fast. With -cuts.table the test prints, for each preset, how many of ten cuts reset a
// node, and how many nodes they reset.
func TestTransientCuts(t *testing.T) {
	if !*cutsTable {
		for _, k := range cuts {
			if got := transient(t, &presets[1], &k, 8*time.Second, 1); got != 0 {
				t.Errorf("%s for 8 s with the defaults: %d resets", k.name, got)
			}
			if got := transient(t, &presets[0], &k, 3*time.Second, 1); got != 0 {
				t.Errorf("%s for 3 s with fast: %d resets", k.name, got)
			}
		}
		return
	}
	chosen := regexp.MustCompile(*cutsOf)
	lengths := []time.Duration{1, 3, 5, 8, 10, 13, 15, 20}
	for _, k := range cuts {
		for _, p := range presets {
			row := []string{k.name, p.name}
			if !chosen.MatchString(strings.Join(row, " | ")) {
				continue
			}
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
