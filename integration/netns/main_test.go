package netns

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// enableEnv names the variable that enables these tests, which need root and several minutes.
const enableEnv = "FENCING_TEST_NETNS"

// binariesEnv names the variable with a folder of fencing-agent and fencectl. Without it they are built.
const binariesEnv = "FENCING_BIN"

const (
	roleBoot = "netns-boot"
)

var (
	rounds = flag.Int("rounds", 10, "total number of equal splits")
	labs   = flag.Int("labs", 5, "number of clusters that run the rounds at the same time")
	sizes  = flag.String("sizes", "3,7", "numbers of agents in the scenarios, one cluster after the other")
)

var networks = []string{"mgmt", "data"}

// startLimit bounds starts and returns, because the clusters share two slow cores. It is longer than the minute for
// which a LUN that was slow once, during a start, is reported as too slow.
const startLimit = 2 * time.Minute

var binaries string // folder of the binaries under test

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == roleBoot {
		fmt.Fprintln(os.Stderr, lab.ExecInBoot(os.Args[2:]))
		os.Exit(1)
	}
	if len(os.Args) > 2 && os.Args[1] == roleMember {
		if err := memberMain(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	// The agents mostly wait, so more clusters than processors may run at once.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(*labs)) // it fails only if it is no number
	}
	if os.Getenv(enableEnv) != "" {
		remove, err := build()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
			remove()
			os.Exit(code)
		}))
		return
	}
	os.Exit(m.Run())
}

func build() (remove func(), err error) {
	if binaries = os.Getenv(binariesEnv); binaries != "" {
		binaries, err = filepath.Abs(binaries)
		return func() {}, err
	}
	if binaries, err = os.MkdirTemp("", "fencing-bin-"); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "build", "-o", binaries, "../../cmd/fencing-agent", "../../cmd/fencectl")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build the programs under test: %w", err)
	}
	return func() { os.RemoveAll(binaries) }, nil
}

// need skips a test that cannot run here or was not enabled.
func need(t *testing.T) {
	t.Helper()
	if os.Getenv(enableEnv) == "" {
		t.Skipf("set %s=1 to run the agents in network namespaces (make test-netns)", enableEnv)
	}
	if err := lab.Probe(); err != nil {
		t.Skipf("network namespaces need root here: %v", err)
	}
}

// cluster is a running cluster of real agents on loop devices.
type cluster struct {
	*lab.Agents
	*observe.Observer
	t      *testing.T
	nodes  []string
	lun    string // "": there is no LUN
	loops  *lab.LoopSet
	stalls *observe.Stalls
	fulls  uint64            // lab.NeighboursRefused when the cluster was created
	always observe.Condition // a condition that no stall excuses; may be nil
}

// newCluster returns a cluster on loop devices. It starts nothing yet.
func newCluster(t *testing.T, size, sector int, override map[string]any) *cluster {
	t.Helper()
	return newClusterOn(t, size, sector, lab.AgentConfig{Override: override})
}

// newClusterOn does the same with a configuration that lacks only the LUN.
func newClusterOn(t *testing.T, size, sector int, config lab.AgentConfig) *cluster {
	t.Helper()
	dir := newDir(t)
	lun, err := lab.NewLUNFile(dir, 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lun.Close() })
	loops, err := lab.LoopDevices(lun.Path, size, sector)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { loops.Close() })
	initLUN(t, loops.Paths[0], size)
	device := map[string]string{}
	for i, node := range nodeNames(size) {
		device[node] = loops.Paths[i]
	}
	config.LUN = func(node string) string { return device[node] }
	c := newClusterIn(t, dir, size, config)
	c.lun, c.loops = loops.Paths[0], loops
	c.must(c.stalls.Disk(filepath.Dir(lun.Path)))
	return c
}

// newDir creates a folder for logs. It is kept if the test fails.
func newDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fn")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs and configurations are kept in %s", dir)
			return
		}
		os.RemoveAll(dir)
	})
	return dir
}

func nodeNames(size int) (nodes []string) {
	for i := range size {
		nodes = append(nodes, "n"+strconv.Itoa(i+1))
	}
	return nodes
}

// newClusterIn returns a cluster with its files in dir. It starts nothing yet.
func newClusterIn(t *testing.T, dir string, size int, config lab.AgentConfig) *cluster {
	t.Helper()
	nodes := nodeNames(size)
	l, err := lab.New(lab.Config{Nodes: nodes, Networks: networks, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	config.Dir, config.HTTP = dir, "127.0.0.1:9110"
	agents, err := lab.NewAgents(l, filepath.Join(binaries, "fencing-agent"), config)
	if err != nil {
		t.Fatal(err)
	}
	o, err := observe.New(agents)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	stalls := observe.NewStalls()
	t.Cleanup(stalls.Close)
	return &cluster{Agents: agents, Observer: o, t: t, nodes: nodes, stalls: stalls, fulls: lab.NeighboursRefused()}
}

func initLUN(t *testing.T, device string, slots int) {
	t.Helper()
	out, err := exec.Command(filepath.Join(binaries, "fencectl"), "lun", "init", device,
		"--cluster", "demo", "--node-group", "demo", "--slots", strconv.Itoa(slots)).CombinedOutput()
	if err != nil {
		t.Fatalf("fencectl lun init: %v\n%s", err, out)
	}
}

// startAll starts all agents and waits until nothing is missing.
func (c *cluster) startAll() {
	c.t.Helper()
	for _, node := range c.nodes {
		if err := c.Start(node); err != nil {
			c.t.Fatal(err)
		}
	}
	conditions := []observe.Condition{c.everybody()}
	if c.lun != "" {
		conditions = append(conditions, observe.LUNReady(c.nodes...))
	}
	c.await(startLimit, "all up", conditions...)
}

// everybody holds when all nodes feed by majority, all nodes reach each other on all networks, and earlier events can
// have no more consequences.
func (c *cluster) everybody() observe.Condition {
	return observe.All(
		observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, c.nodes...),
		observe.Counting(c.nodes...),
		observe.Networks(true, networks, c.nodes),
		observe.Heard(c.nodes...),
	)
}

// await ends the test unless all conditions hold in time, and returns the time that it took.
func (c *cluster) await(within time.Duration, what string, conditions ...observe.Condition) (*observe.View, time.Duration) {
	c.t.Helper()
	began := time.Now()
	v, err := c.Await(c.t.Context(), within, observe.All(conditions...))
	if err != nil {
		c.fail(began, what, err)
	}
	return v, time.Since(began)
}

// standstill is the longest time for which the machine, or the disk of the LUN, may stand still without excusing what
// agents do.
const standstill = time.Second

// fail ends the test. If the machine stood still shortly before, its agents stood still together, and rightly took each
// other for gone. That proves nothing, and the test is skipped. The same applies if other programs on the machine broke
// the network. Two winners are never excused.
func (c *cluster) fail(began time.Time, what string, err error) {
	c.t.Helper()
	if v, _ := c.View(); c.always != nil && c.always(v) != "" {
		c.t.Fatalf("%s: %v; %s", what, err, c.always(v))
	}
	if took := c.stalls.Since(began.Add(-patience)); took > standstill {
		c.t.Skipf("this proves nothing: the machine or its disk stood still for %v: %s: %v", took.Round(time.Millisecond), what, err)
	}
	if n := lab.NeighboursRefused() - c.fulls; n > 0 {
		c.t.Skipf("this proves nothing: the kernel had no room for hardware addresses %d times (sysctl net.ipv4.neigh.default.gc_thresh3): %s: %v", n, what, err)
	}
	c.t.Fatalf("%s: %v", what, err)
}

func (c *cluster) hold(during time.Duration, what string, conditions ...observe.Condition) {
	c.t.Helper()
	began := time.Now()
	if _, err := c.Hold(c.t.Context(), during, observe.All(conditions...)); err != nil {
		c.fail(began, what, err)
	}
}

// budget returns the time budget that the agents publish.
func (c *cluster) budget() *fencingv1.TimeBudget {
	v, _ := c.View()
	return v.Status[c.nodes[0]].GetTimeBudget()
}

// lastFeed returns the longest time after an equal split for which the losing half may be fed.
func lastFeed(b *fencingv1.TimeBudget) time.Duration {
	return b.GetHorizonTie().AsDuration() - b.GetWatchdogTimeout().AsDuration() - b.GetRelease().AsDuration()
}

func without(nodes []string, node string) (out []string) {
	for _, n := range nodes {
		if n != node {
			out = append(out, n)
		}
	}
	return out
}
