package gossipsim

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/race"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// config returns the configuration of a simulation; change adapts it.
func config(nodes int, set, scenario string, change ...func(*Config)) Config {
	c := DefaultConfig(nodes)
	c.Set, c.Scenario = set, scenario
	for _, f := range change {
		f(&c)
	}
	return c
}

func lasting(d time.Duration) func(*Config) { return func(c *Config) { c.Duration = d } }
func seeded(seed uint64) func(*Config)      { return func(c *Config) { c.Seed = seed } }

// raceBudget is the longest node-time that a test simulates under the race detector. The detector is slow and, with
// very many events in one bubble, breaks (golang/go#78156): sometimes from 100 s of node-time on.
const raceBudget = 40 * time.Second

// notInMakeTest leaves the larger groups to make simulate KIND=short, which is a section of CI, because they take most
// of the time.
func notInMakeTest(t *testing.T, nodes int) {
	t.Helper()
	if nodes > 10 && testing.Short() && os.Getenv("GOSSIPSIM_SHORT") == "" {
		t.Skip("groups of more than 10 nodes run only in make simulate KIND=short")
	}
}

// run runs a simulation in a separate bubble and checks what must hold in all of them.
func run(t *testing.T, cfg Config) *Report {
	t.Helper()
	notInMakeTest(t, cfg.Nodes)
	if race.Detector && time.Duration(cfg.Nodes)*cfg.Duration > raceBudget {
		t.Skip("the simulation is too long for the race detector")
	}
	var r *Report
	synctest.Test(t, func(t *testing.T) {
		var err error
		if r, err = Run(cfg); err != nil {
			t.Fatal(err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	// If a fifth of the packets is lost, a node that only counts is wrong from the beginning.
	if r.Complete != cfg.Nodes && (cfg.Link.Loss == 0 || cfg.Set == "auto") {
		t.Errorf("at the beginning only %d of %d nodes reached all others", r.Complete, cfg.Nodes)
	}
	if r.Overflows > 0 {
		t.Errorf("%d packets were lost to full queues", r.Overflows)
	}
	return r
}

// show prints a distribution in one line.
func show(d Distribution) string {
	text := fmt.Sprintf("%d nodes, %d missing", d.Len(), d.Missing)
	for _, q := range []float64{0, 0.5, 1} {
		if v, ok := d.Quantile(q); ok {
			text += fmt.Sprintf(" %.2fs", v.Seconds())
		}
	}
	return text
}

// expectAll checks that some nodes had to see a change, and that they did so within a bound.
func expectAll(t *testing.T, what string, d Distribution, nodes int, bound time.Duration) {
	t.Helper()
	last, ok := d.Quantile(1)
	if d.Len() != nodes || !ok || last > bound {
		t.Errorf("%s: %s; want %d nodes within %v", what, show(d), nodes, bound)
	}
}

func expectNoneFalse(t *testing.T, r *Report) {
	t.Helper()
	if r.False != (False{}) {
		t.Errorf("false in %.3f node-hours: %+v", r.NodeHours, r.False)
	}
}

// dMax is the age at which the agent's evidence no longer counts. Callers add a second for the probe that was under
// way.
func dMax(nodes int) time.Duration { return netgossip.Tune(nodes).EvidenceMaxAge }

// leftLimit is the time after which survivors know of a lost node. If not every peer is asked directly, memberlist
// reports the death, and its first probe of the dead node may be late.
func leftLimit(nodes int) time.Duration {
	p := netgossip.Tune(nodes)
	return max(dMax(nodes)+time.Second, p.TypicalDetection(nodes)+3*p.ProbeInterval)
}

func TestCrash(t *testing.T) {
	for seed := range uint64(5) {
		r := run(t, config(10, "auto", "crash", seeded(seed), lasting(15*time.Second)))
		expectAll(t, "LEFT", r.Left, 9, dMax(10)+time.Second)
		expectAll(t, "exact view", r.ExactView, 9, dMax(10)+time.Second)
		expectNoneFalse(t, r)
		if r.Disturbed != 9 || r.BelowQuorum.Len() != 0 {
			t.Errorf("%d LEFTs of the crashed node, %s below quorum", r.Disturbed, show(r.BelowQuorum))
		}
	}
}

// The time of the isolated node must not grow with N; with counting it does.
func TestIsolated(t *testing.T) {
	for _, n := range []int{10, 50} {
		t.Run(fmt.Sprintf("N=%d", n), func(t *testing.T) {
			r := run(t, config(n, "auto", "isolate", lasting(12*time.Second)))
			expectAll(t, "isolated node below quorum", r.BelowQuorum, 1, dMax(n)+time.Second)
			expectAll(t, "LEFT at the others", r.Left, n-1, leftLimit(n))
			expectNoneFalse(t, r)
			counting := run(t, config(n, "adr-raw", "isolate", lasting(4*time.Minute)))
			t.Logf("isolated node below quorum: evidence %s; counting %s", show(r.BelowQuorum), show(counting.BelowQuorum))
			if least, ok := counting.BelowQuorum.Quantile(0); counting.BelowQuorum.Len() != 1 || ok && least < 20*time.Second {
				t.Errorf("a node that only counts knew after %v: memberlist does not do that", least)
			}
		})
	}
}

func TestEqualSplit(t *testing.T) {
	for _, n := range []int{4, 20, 100} {
		t.Run(fmt.Sprintf("N=%d", n), func(t *testing.T) {
			if n > 20 && testing.Short() {
				t.Skip("100 nodes take seconds")
			}
			r := run(t, config(n, "auto", "split", seeded(7), lasting(6*time.Second), func(c *Config) {
				if n > 20 { // each of their packets costs real time
					c.Networks, c.Warmup = 1, time.Second
				}
			}))
			expectAll(t, "view is exactly its own half", r.ExactView, n, 5*time.Second)
			expectAll(t, "below quorum", r.BelowQuorum, n, dMax(n)+time.Second)
			expectNoneFalse(t, r)
		})
	}
}

func TestSettleEndsEarly(t *testing.T) {
	settle := func(c *Config) { c.Settle = 3 * time.Second }
	r := run(t, config(6, "auto", "isolate", settle))
	found, _ := r.ExactView.Quantile(1)
	if end := r.Measured; end < found+3*time.Second || end > found+6*time.Second {
		t.Errorf("all had found out after %v, the end came after %v", found, end)
	}
	if got := len(r.Seconds); got != int(r.Measured/time.Second) || r.Sent.Packets == 0 {
		t.Errorf("%d seconds counted, %+v sent", got, r.Sent)
	}
	// If no node notices anything, or there is nothing to notice, the simulation continues to its end.
	for _, c := range []Config{config(10, "lan", "isolate", settle, lasting(20*time.Second)), config(3, "auto", "idle", settle, lasting(8*time.Second))} {
		if r := run(t, c); r.Measured != c.Duration {
			t.Errorf("%s ended after %v", c.Scenario, r.Measured)
		}
	}
}

func TestSplitIntoThree(t *testing.T) {
	r := run(t, config(9, "auto", "split", func(c *Config) { c.Parts = 3 }, lasting(10*time.Second)))
	expectAll(t, "view is exactly its own part", r.ExactView, 9, dMax(9)+time.Second)
	expectAll(t, "below quorum", r.BelowQuorum, 9, dMax(9)+time.Second)
}

// After a split of 40 s, longer than GossipToTheDeadTime, memberlist has given up its dead nodes and no longer looks
// for them. The agents still find each other again, without any API.
func TestHeal(t *testing.T) {
	for _, n := range []int{3, 10, 50} {
		t.Run(fmt.Sprintf("N=%d", n), func(t *testing.T) {
			if n > 10 && testing.Short() {
				t.Skip("50 nodes take seconds")
			}
			if dead := netgossip.Tune(n).GossipToTheDeadTime; dead >= 40*time.Second {
				t.Fatalf("GossipToTheDeadTime is %v: the split is too short for this test", dead)
			}
			r := run(t, config(n, "auto", "heal", lasting(60*time.Second)))
			expectAll(t, "view is complete again", r.ExactView, n, 5*time.Second)
			expectNoneFalse(t, r)
		})
	}
}

func TestOneNetworkOfTwo(t *testing.T) {
	r := run(t, config(6, "auto", "one-network", lasting(30*time.Second)))
	expectNoneFalse(t, r)
	if r.Disturbed > 0 {
		t.Errorf("%d LEFTs although the other network works", r.Disturbed)
	}
	all := run(t, config(6, "auto", "one-network", lasting(30*time.Second), func(c *Config) { c.All = true }))
	if all.Disturbed != 6*3 {
		t.Errorf("%d LEFTs where all networks are needed, want each of 6 to lose 3", all.Disturbed)
	}
}

func TestOneWayFaultsAreNoticedByBothSides(t *testing.T) {
	for _, scenario := range []string{"mute", "deaf", "unplug"} {
		r := run(t, config(7, "auto", scenario, lasting(15*time.Second)))
		expectAll(t, scenario+": the node itself", r.BelowQuorum, 1, dMax(7)+time.Second)
		expectAll(t, scenario+": the others", r.Left, 6, dMax(7)+time.Second)
		if at, _ := r.BelowQuorum.Quantile(1); scenario == "unplug" && at > time.Millisecond {
			t.Errorf("an unplugged node waited %v for what its kernel knew at once", at)
		}
	}
}

func TestLeave(t *testing.T) {
	r := run(t, config(10, "auto", "leave", lasting(15*time.Second)))
	// The evidence of a node that has given notice counts until it is too old: the node continues to answer while its
	// notice spreads.
	expectAll(t, "LEFT after a goodbye", r.Left, 9, dMax(10)+time.Second)
	expectNoneFalse(t, r)
}

// If an agent is back after a second, nobody has missed it.
func TestRestart(t *testing.T) {
	r := run(t, config(10, "auto", "restart", lasting(20*time.Second)))
	expectNoneFalse(t, r)
	if r.Disturbed > 0 {
		t.Errorf("%d LEFTs of, or at, a node whose agent restarted", r.Disturbed)
	}
}

func TestLossMakesNoFalseLeft(t *testing.T) {
	r := run(t, config(10, "auto", "loss", lasting(5*time.Minute)))
	expectNoneFalse(t, r)
	if r.Disturbed > 0 || r.NodeHours < 0.83 {
		t.Errorf("%d LEFTs in %.2f node-hours", r.Disturbed, r.NodeHours)
	}
}

func TestDuplicatesAreHarmless(t *testing.T) {
	r := run(t, config(5, "auto", "idle", lasting(time.Minute), func(c *Config) { c.Link.Duplicate = 0.3 }))
	expectNoneFalse(t, r)
}

// A simulator that finds no false LEFT must be able to find one. With Deckhouse's critical profile and a loss of a
// fifth of the packets, there are dozens in a node-hour.
func TestFalseLeftsAreFound(t *testing.T) {
	r := run(t, config(10, "deckhouse-critical", "loss", lasting(3*time.Minute), func(c *Config) { c.Link.Loss = 0.2; c.Networks = 1 }))
	if r.False.Reports == 0 || r.False.Incidents == 0 || r.False.Incidents > r.False.Reports {
		t.Errorf("false in %.2f node-hours: %+v", r.NodeHours, r.False)
	}
	perHour := float64(r.False.Incidents) / r.NodeHours
	t.Logf("%.0f incidents per node-hour", perHour)
	if perHour < 10 || perHour > 200 {
		t.Errorf("%.1f incidents per node-hour; 54 is usual", perHour)
	}
}

// The traffic of memberlist's defaults is known: one probe and one acknowledgement per second and network. The
// simulator's counts of packets and bytes are checked against that.
func TestIdleTrafficOfMemberlist(t *testing.T) {
	r := run(t, config(10, "lan", "idle", lasting(5*time.Minute)))
	m := r.Mean()
	if perNetwork := m.Packets / 2; perNetwork < 1.9 || perNetwork > 2.1 {
		t.Errorf("%.2f packets per second and network, want 2", perNetwork)
	}
	if size := m.Bytes / m.Packets; size < 60 || size > 100 {
		t.Errorf("packets have %.0f bytes", size)
	}
	if m.EvidencePackets != 0 || m.StreamBytes < 60 || m.StreamBytes > 250 {
		t.Errorf("sent %+v", m)
	}
	if got := len(r.Seconds); got != 300 {
		t.Errorf("%d seconds were counted", got)
	}
}

func TestIdleTrafficOfAgents(t *testing.T) {
	r := run(t, config(4, "auto", "idle", lasting(time.Minute)))
	// Three peers and two networks give as many probes, and as many answers, a second.
	if m := r.Mean(); m.EvidencePackets < 11 || m.EvidencePackets > 14 || m.EvidenceBytes >= m.Bytes {
		t.Errorf("sent %+v", m)
	}
	expectNoneFalse(t, r)
}

// Whatever happens at random, the simulation comes to its end and healthy agents are right, with one exception. When a
// partition ends, the other side's gossip of deaths voids the evidence of healthy nodes, until their next answer some
// milliseconds later.
func TestChaos(t *testing.T) {
	last := 2 * time.Minute
	if race.Detector {
		last = raceBudget / 7
	}
	disturbed := 0
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			w, r, err := simulate(config(7, "auto", "chaos", seeded(seed), lasting(last)))
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range w.obs.lefts {
				if !l.ofSlow && !l.atSlow && !w.justHealed(l.at) {
					t.Errorf("seed %d: false LEFT %+v after %q", seed, l, r.Schedule)
				}
			}
			for _, at := range w.obs.lost {
				if !w.justHealed(at) {
					t.Errorf("seed %d: quorum lost without cause at %v after %q", seed, at, r.Schedule)
				}
			}
			disturbed += r.Disturbed
			if err := w.close(); err != nil {
				t.Error(err)
			}
		})
	}
	if disturbed == 0 {
		t.Error("nobody was ever LEFT")
	}
}

// justHealed reports whether a fault has ended within the last second.
func (w *world) justHealed(at time.Duration) bool {
	return slices.ContainsFunc(w.faults, func(f Fault) bool {
		ended := f.At + f.For
		return f.For > 0 && at >= ended && at < ended+time.Second
	})
}

func TestCountingSurvivesChaos(t *testing.T) {
	for _, set := range []string{"lan", "deckhouse-medium"} {
		if r := run(t, config(7, set, "chaos", lasting(40*time.Second), seeded(1))); r.Disturbed == 0 {
			t.Errorf("%s: nobody was ever LEFT", set)
		}
	}
}

func TestSlowAndFlappingNodes(t *testing.T) {
	r := run(t, config(10, "auto", "slow", lasting(time.Minute)))
	if r.False.Reports > 0 || r.False.QuorumLost > 0 {
		t.Errorf("one slow node of ten: %+v", r.False)
	}
	r = run(t, config(6, "auto", "flap", lasting(time.Minute)))
	expectNoneFalse(t, r)
	if len(r.Schedule) != 12 {
		t.Errorf("%d cuts in a minute", len(r.Schedule))
	}
}

// The boot leaves no messages to gossip, so memberlist is idle from the first moment.
func TestBootIsQuiet(t *testing.T) {
	for _, set := range []string{"auto", "lan"} {
		synctest.Test(t, func(t *testing.T) {
			w, err := newWorld(config(20, set, "idle"))
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			if err := w.boot(); err != nil {
				t.Fatal(err)
			}
			before := w.fab.sent()
			<-time.After(2 * time.Second)
			s := w.fab.sent().minus(before)
			swim := float64(s.Packets-s.Evidence) / 20 / 2 / 2
			if swim > 5 {
				t.Errorf("%s: %.1f packets of memberlist per node, network and second", set, swim)
			}
			for _, n := range w.nodes {
				list, err := n.engine.list(1)
				if err != nil || list.NumMembers() != 20 {
					t.Fatalf("%s: node %d lists %d, %v", set, n.index, list.NumMembers(), err)
				}
			}
		})
	}
}

func TestRunRefusesNonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if r, err := Run(config(1, "auto", "idle")); err == nil {
			t.Errorf("a group of one gives %+v", r)
		}
	})
}
