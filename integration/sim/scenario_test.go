package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// TestScenarios runs the files of testdata. The text above ---- says what happens, and the text below it what every node
// then decides. go test ./integration/sim -rewrite writes the latter again; read the difference line by line.
//
//	new nodes=N [networks=(a,b)] [policy=all] [lun=no] [lease=yes] [onloss=exclude] [watchdog=D] [reboot=D]
//	run for=D              let time pass
//	split (n1,n2) (n3,n4) [network=a]
//	oneway from=n1 to=n2 [network=a]
//	heal
//	linkdown node=n1 network=a | linkup node=n1 network=a
//	kill node=n1 | start node=n1 | restart node=n1 | pause node=n1 | resume node=n1
//	lun node=n1 is=(down|hung|readonly|ok)
//	api node=n1 is=(down|ok)
//	events                 print what each node has published since the last time
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var c *Cluster
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				c = New(scenarioConfig(t, d))
				c.Run(15 * time.Second)
				return c.Report()
			}
			out := runCommand(t, c, d)
			if v := c.Violations(); len(v) > 0 {
				d.Fatalf(t, "safety violated:\n%s", strings.Join(v, "\n"))
			}
			return out
		})
	})
}

func scenarioConfig(t *testing.T, d *datadriven.TestData) Config {
	n := 4
	d.MaybeScanArgs(t, "nodes", &n)
	cfg := DefaultConfig(n, 1)
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "networks":
			cfg.Networks = a.Vals
		case "policy":
			if a.Vals[0] == "all" {
				cfg.Policy = netgossip.All()
			}
		case "lun":
			cfg.LUN = a.Vals[0] != "no"
		case "lease":
			cfg.LUN, cfg.Lease = false, true
		case "onloss":
			cfg.OnLoss = map[string]watchdog.LossPolicy{"fence": watchdog.LossFence, "exclude": watchdog.LossExclude, "wait": watchdog.LossWait}[a.Vals[0]]
		case "watchdog":
			cfg.Watchdog = duration(t, d, a.Vals[0])
		case "reboot":
			cfg.Reboot = duration(t, d, a.Vals[0])
		case "nodes":
		default:
			d.Fatalf(t, "unknown argument %s", a.Key)
		}
	}
	return cfg
}

func duration(t *testing.T, d *datadriven.TestData, s string) time.Duration {
	v, err := time.ParseDuration(s)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return v
}

func runCommand(t *testing.T, c *Cluster, d *datadriven.TestData) string {
	node := func(key string) int {
		var name string
		d.ScanArgs(t, key, &name)
		return index(t, d, c, name)
	}
	var networks []int
	if d.HasArg("network") {
		var name string
		d.ScanArgs(t, "network", &name)
		networks = []int{slices.Index(c.cfg.Networks, name)}
	}
	switch d.Cmd {
	case "run":
		var s string
		d.ScanArgs(t, "for", &s)
		c.Run(duration(t, d, s))
		return fmt.Sprintf("at %v\n%s", c.Now(), c.Report())
	case "split":
		c.Split(groups(t, d, c), networks...)
	case "oneway":
		c.CutOneWay(node("from"), node("to"), networks...)
	case "heal":
		c.Heal()
	case "linkdown", "linkup":
		c.LinkDown(node("node"), networks[0], d.Cmd == "linkdown")
	case "kill":
		c.Kill(node("node"))
	case "start":
		c.Start(node("node"))
	case "restart":
		c.RestartAgent(node("node"))
	case "pause":
		c.Pause(node("node"))
	case "resume":
		c.Resume(node("node"))
	case "lun":
		var is string
		d.ScanArgs(t, "is", &is)
		f := map[string]*Faults{"down": {Down: true}, "hung": {Hung: true}, "readonly": {Down: true, Writes: true}, "ok": nil}[is]
		c.LUNFaults(node("node"), f)
	case "api":
		var is string
		d.ScanArgs(t, "is", &is)
		c.APIFaults(node("node"), APIFaults{Down: is == "down"})
	case "events":
		var b strings.Builder
		for i, n := range c.nodes {
			fmt.Fprintf(&b, "%s: %s\n", n.Name, strings.Join(c.Events(i), ", "))
		}
		return b.String()
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return "ok\n"
}

// groups reads the parts of a split: arguments such as (n1,n2).
func groups(t *testing.T, d *datadriven.TestData, c *Cluster) [][]int {
	var out [][]int
	for _, word := range strings.Fields(d.Input) {
		var g []int
		for _, name := range strings.Split(strings.Trim(word, "()"), ",") {
			g = append(g, index(t, d, c, name))
		}
		out = append(out, g)
	}
	if len(out) < 2 {
		d.Fatalf(t, "a split needs two parts or more, below the command: (n1,n2) (n3,n4)")
	}
	return out
}

func index(t *testing.T, d *datadriven.TestData, c *Cluster, name string) int {
	i, err := strconv.Atoi(strings.TrimPrefix(name, "n"))
	if err != nil || i < 1 || i > len(c.nodes) {
		d.Fatalf(t, "no node %q", name)
	}
	return i - 1
}
