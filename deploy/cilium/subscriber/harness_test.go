package subscriber

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	uhive "github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/hivetest"
	"github.com/cilium/hive/script"
	"github.com/cilium/statedb"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	daemonk8s "github.com/cilium/cilium/daemon/k8s"
	cmtypes "github.com/cilium/cilium/pkg/clustermesh/types"
	"github.com/cilium/cilium/pkg/datapath/tables"
	envoycfg "github.com/cilium/cilium/pkg/envoy/config"
	"github.com/cilium/cilium/pkg/hive"
	k8sfake "github.com/cilium/cilium/pkg/k8s/client/testutils"
	slimclient "github.com/cilium/cilium/pkg/k8s/slim/k8s/client/clientset/versioned"
	k8stest "github.com/cilium/cilium/pkg/k8s/testutils"
	"github.com/cilium/cilium/pkg/k8s/version"
	"github.com/cilium/cilium/pkg/kpr"
	"github.com/cilium/cilium/pkg/lbipamconfig"
	"github.com/cilium/cilium/pkg/loadbalancer"
	lbcell "github.com/cilium/cilium/pkg/loadbalancer/cell"
	lbmaps "github.com/cilium/cilium/pkg/loadbalancer/maps"
	"github.com/cilium/cilium/pkg/loadbalancer/writer"
	"github.com/cilium/cilium/pkg/maglev"
	"github.com/cilium/cilium/pkg/metrics"
	"github.com/cilium/cilium/pkg/node"
	nodetypes "github.com/cilium/cilium/pkg/node/types"
	"github.com/cilium/cilium/pkg/nodeipamconfig"
	"github.com/cilium/cilium/pkg/option"
	"github.com/cilium/cilium/pkg/source"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

const ownNode = "own"

func TestMain(m *testing.M) {
	// Both are global in Cilium.
	version.Force(k8stest.DefaultVersion)
	nodetypes.SetName(ownNode)
	if os.Getuid() == 0 && !realMaps() {
		if err := becomeNobody(); err != nil {
			fmt.Fprintln(os.Stderr, "give up root:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// becomeNobody gives up root for good: as root the load balancer would use the kernel's maps.
func becomeNobody() error {
	const nobody = 65534
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody))
}

// realMaps reports whether BPF maps of the kernel are used, which needs root and a bpffs.
func realMaps() bool { return os.Getenv("FENCING_TEST_BPF") != "" }

// balancer is Cilium's load balancer with the subscriber. It reads objects from an API server and writes maps.
type balancer struct {
	hive    *hive.Hive
	log     *slog.Logger
	agent   *agent
	client  *k8sfake.FakeClientset // nil with a real API server
	slim    slimclient.Interface   // writes to the API server, real or faked
	writer  *writer.Writer
	maps    lbmaps.LBMaps
	metrics Metrics
}

// newBalancer returns a balancer with a faked API server and the flags in set. It is not started.
func newBalancer(t testing.TB, set map[string]string) *balancer {
	t.Helper()
	return newBalancerOn(t, fakeAPI, set)
}

func fakeAPI(b *balancer) cell.Cell {
	return cell.Group(k8sfake.FakeClientCell(), cell.Invoke(func(c *k8sfake.FakeClientset) { b.client, b.slim = c, c.Slim() }))
}

// newBalancerOn returns a balancer on the API server whose client the cell provides.
func newBalancerOn(t testing.TB, api func(*balancer) cell.Cell, set map[string]string) *balancer {
	t.Helper()
	b := &balancer{agent: newAgent(t), log: hivetest.Logger(t, hivetest.LogLevel(slog.LevelInfo))}
	b.hive = hive.New(api(b), b.cells())
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	b.hive.RegisterFlags(flags)
	all := map[string]string{
		"kube-proxy-replacement":   "true",
		"lb-retry-backoff-min":     "10ms",
		"lb-retry-backoff-max":     "10ms",
		"bpf-lb-maglev-table-size": "1021",
		"fencing-agent-socket":     b.agent.path,
		"fencing-agent-hold":       "2s",
	}
	for name, value := range set {
		all[name] = value
	}
	for name, value := range all {
		if err := flags.Set(name, value); err != nil {
			t.Fatalf("--%s=%s: %v", name, value, err)
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := b.hive.Stop(b.log, ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return b
}

func (b *balancer) cells() cell.Cell {
	return cell.Group(
		daemonk8s.ResourcesCell,
		podTables,
		cell.Config(envoycfg.SecretSyncConfig{}),
		kpr.Cell,
		cell.Config(loadbalancer.TestConfig{TestFaultProbability: 0.1}), // one in ten operations on faked maps fails
		metrics.Cell,
		maglev.Cell,
		lbipamconfig.Cell,
		nodeipamconfig.Cell,
		node.LocalNodeStoreTestCell,
		cell.Provide(
			func() cmtypes.ClusterInfo { return cmtypes.ClusterInfo{} },
			func(cfg loadbalancer.TestConfig) *loadbalancer.TestConfig { return &cfg },
			tables.NewNodeAddressTable,
			statedb.RWTable[tables.NodeAddress].ToTable,
			source.NewSources,
			func() *option.DaemonConfig { return &option.DaemonConfig{EnableIPv4: true, EnableIPv6: true} },
			func() uhive.ScriptCmdsOut { return uhive.NewScriptCmds(b.agent.commands()) },
		),
		cell.Invoke(func(w *writer.Writer, m lbmaps.LBMaps, own Metrics) {
			b.writer, b.maps, b.metrics = w, m, own
		}),
		lbcell.Cell,
		Cell,
	)
}

// agent is the real server of the agent's API on a real socket, without an agent behind it.
type agent struct {
	t    testing.TB
	path string

	mu     sync.Mutex
	hub    *publish.Hub
	server *publish.Server
	served chan error
	left   map[string]bool // the nodes that the agent remembers as LEFT
	roster []string
	counts *prometheus.Registry
}

func newAgent(t testing.TB) *agent {
	folder, err := os.MkdirTemp("", "cil") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, path: filepath.Join(folder, "a.sock")}
	t.Cleanup(func() {
		a.kill()
		os.RemoveAll(folder)
	})
	return a
}

// start replaces the agent by one that has these nodes.
func (a *agent) start(names ...string) error {
	a.kill()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts = prometheus.NewRegistry()
	a.hub = publish.NewHub(publish.HubConfig{Source: ownNode, Metrics: publish.NewMetrics(a.counts)})
	var err error
	if a.server, err = publish.New(publish.Config{Hub: a.hub, Status: a.status}); err != nil {
		return err
	}
	l, err := publish.Listen(a.path, 0o600, "")
	if err != nil {
		return err
	}
	a.served = make(chan error, 1)
	go func(s *publish.Server, served chan<- error) { served <- s.Serve(l) }(a.server, a.served)
	a.roster, a.left = names, map[string]bool{}
	set := make([]publish.Node, len(names))
	for i, n := range names {
		set[i] = publish.Node{Name: n}
	}
	a.hub.Update(set, nil)
	return nil
}

// kill ends the agent as a crash does.
func (a *agent) kill() {
	a.mu.Lock()
	server, served := a.server, a.served
	a.server = nil
	a.mu.Unlock()
	if server == nil {
		return
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = server.Stop(over)
	if err := <-served; err != nil {
		a.t.Errorf("Serve: %v", err)
	}
}

func (a *agent) publish(kind fencingv1.EventType, names ...string) {
	a.mu.Lock()
	hub := a.hub
	a.mu.Unlock()
	edges := make([]publish.Edge, len(names))
	for i, n := range names {
		a.mu.Lock()
		a.left[n] = kind == fencingv1.EventType_LEFT
		a.mu.Unlock()
		edges[i] = publish.Edge{Type: kind, Node: publish.Node{Name: n}}
	}
	hub.Publish(edges...)
}

// dropped returns the number of streams that the agent has ended because their subscriber was too slow.
func (a *agent) dropped() (count float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	families, err := a.counts.Gather()
	if err != nil {
		a.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "fencing_agent_subscribers_dropped_total" {
			for _, m := range f.GetMetric() {
				count += m.GetCounter().GetValue()
			}
		}
	}
	return count
}

// status returns what subscribers read: the members, and the nodes that had LEFT before the subscriber connected.
func (a *agent) status() *fencingv1.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	st := new(fencingv1.Status)
	for _, n := range a.roster {
		one := &fencingv1.NodeStatus{Name: n, Available: !a.left[n]}
		if a.left[n] {
			one.LeftReason = "unreachable"
		}
		st.Nodes = append(st.Nodes, one)
	}
	return st
}

// commands returns the commands with which scripts control the agent.
func (a *agent) commands() map[string]script.Cmd {
	command := func(summary string, run func(args []string) error) script.Cmd {
		return script.Command(script.CmdUsage{Summary: summary, Args: "node..."},
			func(_ *script.State, args ...string) (script.WaitFunc, error) { return nil, run(args) })
	}
	return map[string]script.Cmd{
		"fencing/start": command("start an agent to which these nodes are available", func(args []string) error { return a.start(args...) }),
		"fencing/kill":  command("kill the agent", func([]string) error { a.kill(); return nil }),
		"fencing/left":  command("publish LEFT", func(args []string) error { a.publish(fencingv1.EventType_LEFT, args...); return nil }),
		"fencing/join":  command("publish JOIN", func(args []string) error { a.publish(fencingv1.EventType_JOIN, args...); return nil }),
		"fencing/flap": command("publish LEFT and JOIN 500 times, LEFT last", func(args []string) error {
			for range 500 {
				a.publish(fencingv1.EventType_LEFT, args...)
				a.publish(fencingv1.EventType_JOIN, args...)
			}
			a.publish(fencingv1.EventType_LEFT, args...)
			return nil
		}),
	}
}
