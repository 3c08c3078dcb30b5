package cluster_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

var (
	overhead = flag.String("overhead", "", "numbers of nodes, such as 4,30: for each, measure what the agents use, as counted by their kubelets; empty: do not measure")
	during   = flag.Duration("during", time.Minute, "time for which -overhead measures")
)

// summary contains the fields that are used of a kubelet's /stats/summary. Disks are left out: the kubelet needs
// localStorageCapacityIsolation to measure them, which nodes of namespaces do not support.
type summary struct {
	Pods []struct {
		PodRef     struct{ Name, Namespace string }
		Containers []struct {
			Name string
			CPU  struct {
				Time                 time.Time
				UsageCoreNanoSeconds uint64
			}
			Memory struct{ WorkingSetBytes, RSSBytes uint64 }
		}
	}
}

// cost is what an agent has used so far, as counted by its kubelet.
type cost struct {
	at           time.Time
	cpu          time.Duration
	working, rss uint64
}

func costOf(ctx context.Context, c *cluster.Cluster, node string) (cost, error) {
	out, err := c.Plane.Kubectl(ctx, "", "get", "--raw", "/api/v1/nodes/"+node+"/proxy/stats/summary?only_cpu_and_memory=true")
	if err != nil {
		return cost{}, err
	}
	var s summary
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		return cost{}, err
	}
	for _, p := range s.Pods {
		for _, n := range p.Containers {
			if p.PodRef.Namespace == cluster.Space && n.Name == "fencing-agent" {
				return cost{n.CPU.Time, time.Duration(n.CPU.UsageCoreNanoSeconds), n.Memory.WorkingSetBytes, n.Memory.RSSBytes}, nil
			}
		}
	}
	return cost{}, fmt.Errorf("the kubelet of %s has no agent in its summary: %s", node, out)
}

// TestOverhead prints a row of the table in docs/measurements/cluster.md for each number of nodes.
func TestOverhead(t *testing.T) {
	if inside == nil || *overhead == "" {
		t.Skip("set FENCING_TEST_CLUSTER=1 as root and -overhead 4,30 to measure it (make test-cluster OVERHEAD=4,30)")
	}
	if shared != nil { // the cluster of the scenarios
		do(t, shared.Close())
		shared = nil
	}
	for number := range strings.SplitSeq(*overhead, ",") {
		nodes, err := strconv.Atoi(number)
		do(t, err)
		t.Run("overhead_"+number, func(t *testing.T) {
			programs := mustPrograms(t)
			c, err := cluster.Start(t.Context(), cluster.Config{
				Nodes: nodes, Programs: programs, Room: inside, Kind: kind(t, programs), Manifest: cluster.ManifestIn(root), Say: t.Logf,
			})
			do(t, err)
			defer func() { do(t, c.Close()) }()
			do(t, c.Install(t.Context()))
			measureOverhead(t, c)
		})
	}
}

func measureOverhead(t *testing.T, c *cluster.Cluster) {
	began := time.Now()
	before := map[string]cost{}
	for _, name := range c.Names() {
		a, err := costOf(t.Context(), c, name)
		do(t, err)
		before[name] = a
	}
	select {
	case <-time.After(*during):
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	}
	var cpu, working, rss []float64
	for _, name := range c.Names() {
		a, err := costOf(t.Context(), c, name)
		do(t, err)
		b := before[name]
		if !a.at.After(b.at) {
			t.Fatalf("%s: its kubelet has not counted for %v", name, *during)
		}
		cpu = append(cpu, 100*float64(a.cpu-b.cpu)/float64(a.at.Sub(b.at)))
		working, rss = append(working, float64(a.working)/(1<<20)), append(rss, float64(a.rss)/(1<<20))
	}
	t.Logf("%d nodes, %.0f s: %% of a core | working set, MiB | resident, MiB: median, least, most", len(c.Names()), time.Since(began).Seconds())
	t.Logf("| %d | %s | %s | %s |", len(c.Names()), spread(cpu, "%.2f"), spread(working, "%.1f"), spread(rss, "%.1f"))
}

func spread(of []float64, format string) string {
	slices.Sort(of)
	return fmt.Sprintf(format+", "+format+", "+format, of[len(of)/2], of[0], of[len(of)-1])
}
