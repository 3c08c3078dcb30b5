package sim

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// plainly is a slow oracle that looks at all nodes and pairs after each event.
type plainly struct {
	both     map[[2]int]overlap
	apart    int // pairs of which both fed, summed over the events
	overlaps int // pairs of which both fed for too long
}

func (p *plainly) check(t *testing.T, c *Cluster) {
	t.Helper()
	before, said := p.overlaps, 0
	for i, a := range c.nodes {
		if a.counts != c.counted(a) || a.right != c.right(a) {
			t.Fatalf("%v: the oracle has not noticed what %s does: %v", c.Now(), a.Name, a.decision)
		}
		for j := i + 1; j < len(c.nodes); j++ {
			p.pair(t, c, a, c.nodes[j], [2]int{i, j})
		}
	}
	for _, v := range c.Violations() {
		if strings.Contains(v, "disjoint views") {
			said++
		}
	}
	if said != p.overlaps-before {
		t.Fatalf("%v: %d pairs have fed for too long now, and the oracle says %q", c.Now(), p.overlaps-before, c.Violations())
	}
	c.check.violations = nil
}

func (p *plainly) pair(t *testing.T, c *Cluster, a, b *Node, at [2]int) {
	t.Helper()
	var now overlap
	if was := p.both[at]; c.feeding(a) && c.feeding(b) && !c.counted(a).Intersects(c.counted(b)) {
		p.apart++
		now = overlap{since: c.now}
		for _, r := range []watchdog.Reason{a.decision.Reason, b.decision.Reason} {
			if r == watchdog.ReasonNobodyLives || r == watchdog.ReasonLUNAsking {
				now.holders++
			}
		}
		if was.since != 0 && was.holders == now.holders {
			now = was
		}
		if now.holders < 2 && c.now.Sub(now.since) > c.check.bounds[now.holders] {
			p.overlaps++
			now.since = c.now
		}
	}
	p.both[at] = now
	if is := c.check.both[at[0]*len(c.nodes)+at[1]]; now.holders < 2 && is != now {
		t.Fatalf("%v: %s and %s have both fed since %v, and according to the oracle since %v", c.Now(), a.Name, b.Name, now, is)
	}
}

// run does the same as Cluster.Run, and checks after each event.
func (p *plainly) run(t *testing.T, c *Cluster, d time.Duration) {
	t.Helper()
	end := c.now.Add(d)
	for c.next(end) {
		p.check(t, c)
	}
	c.now = end
	c.checkStep()
	p.check(t, c)
}

// Guard: the oracle looks at a node only when something has happened to it, and at two nodes only when one of them
// changes or their time is over. It finds what it would find by looking at all of them after each event, whatever
// happens to the nodes and to the list of members.
func TestOracleMissesNothing(t *testing.T) {
	apart, overlaps := 0, 0
	for seed := range uint64(18) {
		rng := rand.New(rand.NewPCG(seed, 0x0c1e))
		cfg := DefaultConfig(5, seed)
		cfg.LUN, cfg.Lists = seed%3 > 0, [][]int{{0, 1, 2, 3, 4}, {0, 2, 3}, {0, 1, 2, 4}, {0, 1, 2, 3, 4}}
		cfg.Watchdog, cfg.Feed, cfg.Reboot = 6*time.Second, time.Second, 5*time.Second
		if seed%2 == 0 {
			cfg.Nodes, cfg.Lists, cfg.Lease = 4, nil, !cfg.LUN
		}
		c, p := New(cfg), plainly{both: map[[2]int]overlap{}}
		// Nodes usually keep to these bounds, but not always.
		c.check.bounds = [2]time.Duration{200 * time.Millisecond, 700 * time.Millisecond}
		for range 150 {
			switch i := rng.IntN(cfg.Nodes); rng.IntN(12) {
			case 0, 1:
				if cfg.Lists != nil {
					c.Tell(i, rng.IntN(4))
				}
			case 2, 3:
				disturbNetwork(c, rng)
			case 4:
				c.Split([][]int{{0, 1}, []int{2, 3, 4}[:cfg.Nodes-2]})
			case 5:
				c.Pause(i)
			case 6:
				c.Resume(i)
			case 7:
				c.RestartAgent(i)
			}
			p.run(t, c, time.Duration(rng.Int64N(int64(800*time.Millisecond))))
		}
		apart, overlaps = apart+p.apart, overlaps+p.overlaps
	}
	if apart == 0 || overlaps == 0 {
		t.Errorf("%d times two nodes fed apart, %d times for too long: the test proves nothing", apart, overlaps)
	}
}

// Guard: the oracle finds each error that it looks for among a node's events.
func TestOracleFindsWhatIsSeeded(t *testing.T) {
	seeds := map[string]func(c *Cluster, n *Node){
		"decided twice": func(c *Cluster, n *Node) {
			inst, _ := n.core.Arbiter().Decision()
			c.check.decided[inst], n.logged = &diskquorum.Grant{}, logged{}
		},
		"and has permission to feed": func(_ *Cluster, n *Node) { n.judged = true },
		"both feed under grants": func(c *Cluster, n *Node) {
			for _, m := range c.nodes {
				if m.right == rightNone {
					d := n.decision
					c.during(m, 0, func() { m.decision = d })
				}
			}
		},
	}
	for want, seed := range seeds {
		cfg := DefaultConfig(4, 1)
		if cfg.Lease = want == "both feed under grants"; cfg.Lease {
			cfg.LUN = false
		}
		c := longGranted(t, cfg)
		noViolations(t, c)
		seed(c, c.nodes[1])
		c.Run(time.Second)
		if v := strings.Join(c.Violations(), "\n"); !strings.Contains(v, want) {
			t.Errorf("%s is not found: %s", want, v)
		}
	}
}
