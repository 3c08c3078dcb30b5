package gossipsim

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

func schedule(t *testing.T, c Config) []Fault {
	t.Helper()
	s, err := c.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSameSeedSameSchedule(t *testing.T) {
	for _, scenario := range ScenarioNames() {
		different := false
		for seed := range uint64(20) {
			c := config(50, "auto", scenario, seeded(seed), lasting(time.Minute))
			first, again := schedule(t, c), schedule(t, c)
			if !reflect.DeepEqual(first, again) {
				t.Errorf("%s, seed %d: %v and %v", scenario, seed, first, again)
			}
			c.Set = "lan"
			if other := schedule(t, c); !reflect.DeepEqual(first, other) {
				t.Errorf("%s, seed %d: other parameters give another schedule", scenario, seed)
			}
			c.Seed++
			different = different || !reflect.DeepEqual(first, schedule(t, c))
		}
		if constant := scenario == "idle" || scenario == "loss"; different == constant {
			t.Errorf("%s: the seed changes the schedule: %v", scenario, different)
		}
	}
}

func TestSchedulesAreSound(t *testing.T) {
	for _, n := range []int{2, 3, 10, 1000} {
		for _, scenario := range Scenarios() {
			for seed := range uint64(10) {
				c := config(n, "auto", scenario.Name, seeded(seed), lasting(2*time.Minute))
				faults := schedule(t, c)
				if scenario.Name != "idle" && len(faults) == 0 {
					t.Errorf("%s, %d nodes, seed %d: nothing happens", scenario.Name, n, seed)
				}
				for _, f := range faults {
					if f.At < 0 || f.At > c.Duration || f.String() == "" {
						t.Errorf("%s: %v", scenario.Name, f)
					}
					for _, node := range f.Nodes {
						if node < 0 || node >= n {
							t.Errorf("%s: %v of %d nodes", scenario.Name, f, n)
						}
					}
					if f.Kind == Partition && len(f.Sides) != n {
						t.Errorf("%s: %v of %d nodes", scenario.Name, f, n)
					}
				}
				if scenario.Measured && len(faults) != 1 {
					t.Errorf("%s is measured and has %d faults", scenario.Name, len(faults))
				}
			}
		}
	}
}

func TestSplitsAreEqual(t *testing.T) {
	for _, c := range []struct{ nodes, parts, least, most int }{{10, 2, 5, 5}, {3, 2, 1, 2}, {100, 3, 33, 34}, {5, 5, 1, 1}} {
		for seed := range uint64(10) {
			f := schedule(t, config(c.nodes, "auto", "split", seeded(seed), func(x *Config) { x.Parts = c.parts }))[0]
			sizes := map[int]int{}
			for _, s := range f.Sides {
				sizes[s]++
			}
			if len(sizes) != c.parts {
				t.Errorf("%d nodes are cut into %v, want %d parts", c.nodes, sizes, c.parts)
			}
			for _, size := range sizes {
				if size < c.least || size > c.most {
					t.Errorf("%d nodes are cut into %v", c.nodes, sizes)
				}
			}
		}
	}
}

func TestFaultTouches(t *testing.T) {
	for _, c := range []struct {
		fault Fault
		a, b  int
		want  uint64
	}{
		{Fault{Kind: Crash, Nodes: []int{2}}, 1, 2, 0b111},
		{Fault{Kind: Crash, Nodes: []int{2}}, 1, 3, 0},
		{Fault{Kind: Isolate, Nodes: []int{2}, Networks: []int{1}}, 2, 1, 0b010},
		{Fault{Kind: CutOneWay, Nodes: []int{1, 2}}, 2, 1, 0b111},
		{Fault{Kind: CutOneWay, Nodes: []int{1, 2}}, 2, 3, 0},
		{Fault{Kind: Partition, Sides: []int{0, 0, 1, 1}, Networks: []int{0, 2}}, 1, 2, 0b101},
		{Fault{Kind: Partition, Sides: []int{0, 0, 1, 1}}, 2, 3, 0},
		{Fault{Kind: Slow, Nodes: []int{1}}, 1, 2, 0},
		{Fault{Kind: Impair, Link: &Link{Loss: 0.5}}, 1, 2, 0},
	} {
		if got := c.fault.touches(c.a, c.b, 3); got != c.want {
			t.Errorf("%v between %d and %d touches %b, want %b", c.fault, c.a, c.b, got, c.want)
		}
	}
}

func TestConfigIsValidated(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Nodes = 1 }, "nodes must be"},
		{func(c *Config) { c.Nodes = MaxNodes + 1 }, "nodes must be"},
		{func(c *Config) { c.Networks = 0 }, "networks must be"},
		{func(c *Config) { c.Parts = 11 }, "parts must be"},
		{func(c *Config) { c.Duration = 0 }, "duration must be"},
		{func(c *Config) { c.Warmup = 0 }, "warmup"},
		{func(c *Config) { c.Settle = -1 }, "settle"},
		{func(c *Config) { c.Link.Loss = 1 }, "loss must be"},
		{func(c *Config) { c.Link.Duplicate = 2 }, "duplicate must be"},
		{func(c *Config) { c.Link.Delay = -1 }, "delay"},
		{func(c *Config) { c.Scenario = "storm" }, "one of idle"},
		{func(c *Config) { c.Set = "wan" }, "one of auto"},
		{func(c *Config) { c.Overrides = []string{"probeInterval"} }, "KEY=VALUE"},
	} {
		cfg := DefaultConfig(10)
		c.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", cfg, err, c.want)
		}
		if _, err := cfg.Schedule(); err == nil {
			t.Errorf("%+v has a schedule", cfg)
		}
	}
	cfg := DefaultConfig(10)
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}

func TestADRTable(t *testing.T) {
	for _, c := range []struct {
		nodes                  int
		gossip, probe, timeout time.Duration
	}{
		{2, 200 * time.Millisecond, 500 * time.Millisecond, 250 * time.Millisecond},
		{3, 200 * time.Millisecond, 500 * time.Millisecond, 250 * time.Millisecond},
		{10, 250 * time.Millisecond, 750 * time.Millisecond, 375 * time.Millisecond},
		{100, 500 * time.Millisecond, 1500 * time.Millisecond, 500 * time.Millisecond},
		{1000, 1500 * time.Millisecond, 3 * time.Second, 500 * time.Millisecond},
	} {
		p := adrRaw(c.nodes)
		if p.GossipInterval != c.gossip || p.ProbeInterval != c.probe || p.ProbeTimeout != c.timeout || p.SuspicionMult != 4 {
			t.Errorf("%d nodes: %+v", c.nodes, p)
		}
	}
}

func TestOverride(t *testing.T) {
	p := netgossip.Tune(10)
	for _, o := range []string{"probeInterval=750ms", "indirectChecks=5", "tcpTimeout=1s", "evidenceMaxAge=8s"} {
		if err := Override(&p, o); err != nil {
			t.Error(err)
		}
	}
	if p.ProbeInterval != 750*time.Millisecond || p.IndirectChecks != 5 || p.TCPTimeout != time.Second || p.EvidenceMaxAge != 8*time.Second {
		t.Errorf("got %+v", p)
	}
	for o, want := range map[string]string{
		"probeInterval=5": "duration", "indirectChecks=many": "number", "colour=red": "gossipInterval, gossipNodes", "x": "KEY=VALUE",
	} {
		if err := Override(&p, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", o, err, want)
		}
	}
}
