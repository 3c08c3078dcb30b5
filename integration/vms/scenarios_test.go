package vms

import (
	"cmp"
	"flag"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/observe"
)

var (
	long    = flag.Bool("long", false, "also run the scenarios that take longest")
	few     = flag.Bool("few", false, "run only the short set of watchdogs")
	outage  = flag.Duration("outage", 60*time.Second, "how long all networks are lost")
	outages = flag.String("outages", "3,5,8", "how many nodes an outage of all networks is run with, one lab after the other")
	timing  = flag.String("timing", "careful", "the profile of the agents in those labs")
)

type scenario struct {
	name  string
	long  bool
	nodes int // 0: four nodes
	story func(s *story)
}

// The short set takes less than ten minutes on two processors that do nothing else.
var scenarios = []scenario{
	{name: "LUN checked", story: (*story).lunChecked},
	{name: "agent killed, unit starts it again", story: (*story).agentRestarted},
	{name: "agent killed for good", story: (*story).agentKilled},
	{name: "equal split", story: (*story).equalSplit},
	{name: "one node cut off", story: (*story).isolated},
	{name: "one network of two lost", story: (*story).oneNetwork},
	{name: "LUN lost by all", story: (*story).lunLostByAll},
	{name: "equal split, LUN lost by one half", story: (*story).splitWithoutLUN},
	{name: "agent stopped", story: (*story).agentStopped},
	{name: "rolling upgrade", story: (*story).upgrade},
	{name: "paused for 13 s and cut off", story: (*story).pausedAndCutOff},
	{name: "all networks lost", long: true, story: (*story).allNetworks},
	{name: "all networks lost, three find each other first", long: true, story: (*story).threeFirst},
	{name: "machine paused for 60 s", long: true, story: (*story).machinePaused},
	{name: "one-way cut", long: true, story: (*story).oneWay},
	{name: "LUN path hangs", long: true, story: (*story).lunPath},
	{name: "LUN blinks for all", long: true, story: (*story).lunBlinks},
	{name: "kernel panic", long: true, story: (*story).kernelPanic},
	{name: "clock jumps", long: true, story: (*story).clockJumps},
	{name: "agent ended for want of memory", long: true, story: (*story).outOfMemory},
	{name: "equal split, LUN lost by all", long: true, story: (*story).splitLUNLostByAll},
	{name: "five nodes, two cut off from three", long: true, nodes: 5, story: (*story).minority},
}

// TestScenarios runs all scenarios in one lab, and in a new one after a failure.
func TestScenarios(t *testing.T) {
	need(t)
	stalls := observe.NewStalls()
	defer stalls.Close()
	var l *lab
	defer func() {
		if l != nil {
			l.close(t)
		}
	}()
	for _, c := range scenarios {
		if c.long && !*long {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := &story{t: t, name: c.name, began: time.Now(), stalls: stalls}
			s.logf("%s", c.name)
			count := cmp.Or(c.nodes, 4)
			if l != nil && len(l.nodes) != count {
				l.close(t)
				l = nil
			}
			if l == nil {
				var err error
				if l, err = newLab(t, agentsOn(nodesNamed(count), scenarioConfig())); err != nil {
					t.Fatal(err)
				}
				s.logf("booting %d nodes and their storage", count)
			}
			s.begin(l)
			defer func() {
				if t.Failed() || t.Skipped() {
					l.close(t)
					l = nil
				}
			}()
			s.noteBoots(s.allWell("all well"))
			s.began = time.Now()
			// The time for which the machines waited while they booted has nothing to do with the scenario.
			s.begin(l)
			c.story(s)
			s.heal()
			s.returned(s.allWell("all well again"))
			passed[c.name]++
		})
	}
	if err := writeTable(); err != nil {
		t.Error(err)
	}
}
