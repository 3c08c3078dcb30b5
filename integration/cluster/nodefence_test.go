package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

// nodeFenceScenarios fence nodes by their management boards. They use the shipped controller, its Jobs with Debian's
// fence_ipmilan, and boards of OpenIPMI that switch the nodes' power and the ports of their networks. This cluster runs
// no agent.
var nodeFenceScenarios = []struct {
	name string
	do   func(t *testing.T, f *fencing)
}{
	{"fenced_and_back", fencedAndBack},
	{"board_unreachable", boardUnreachable},
	{"wrong_password", wrongPassword},
	{"two_supplies", twoSupplies},
	{"board_lies", boardLies},
	{"executor_dies", executorDies},
	{"controllers_killed", controllersKilled},
	{"asked_for", askedFor},
}

// fencing is a cluster whose nodes have management boards.
type fencing struct {
	*recovery
	boards map[string]*nodeBoards
}

// nodeBoards contains the boards of one node: for its power supplies, and for its port.
type nodeBoards struct {
	bmc, second, port *board

	mu      sync.Mutex
	on      map[string]bool // state of each supply; guarded by mu
	power   bool            // guarded by mu
	booting sync.Mutex      // held while the node boots or loses its power
	errs    []error         // guarded by mu
}

const (
	// IPMI 1.5 accepts 16 octets at most.
	boardPassword = "s3cret-boards"
	wrongOne      = "wr0ng-s3cret"
	firstPort     = 6230
)

func TestNodeFence(t *testing.T) {
	var f *fencing
	for _, s := range nodeFenceScenarios {
		t.Run(s.name, func(t *testing.T) {
			if f == nil {
				f = startFencing(t)
			}
			began := time.Now()
			s.do(t, f)
			t.Logf("%s: %.1f s", s.name, time.Since(began).Seconds())
		})
	}
	if f != nil {
		do(t, f.close())
	}
}

// firstMissing returns the first of these files that is missing.
func firstMissing(files []string) string {
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			return f
		}
	}
	return ""
}

// Guard: make test-cluster in a fresh clone skips what make test-nodefence has to prepare, and does not fail because of
// it.
func TestWhatNodeFenceLacks(t *testing.T) {
	there, gone := os.Args[0], filepath.Join(t.TempDir(), "executor.tar")
	if lack := firstMissing([]string{there, gone}); lack != gone {
		t.Errorf("%q is missing, want %q", lack, gone)
	}
	if lack := firstMissing([]string{there}); lack != "" {
		t.Errorf("%q is missing", lack)
	}
}

// close ends the cluster, and its boards.
func (f *fencing) close() error {
	var errs []error
	for _, b := range f.boards {
		errs = append(errs, b.bmc.close(), b.second.close(), b.port.close())
	}
	return errors.Join(append(errs, f.Close())...)
}

func startFencing(t *testing.T) *fencing {
	t.Helper()
	if inside == nil {
		t.Skipf("set %s=1 as root to fence nodes of a real cluster by their boards (make test-nodefence)", enableEnv)
	}
	programs, err := cluster.ProgramsIn(root)
	do(t, err)
	if kind(t, programs).OwnKernel() {
		t.Skip("the checker reads the processes of the nodes, and nodes with their own kernel hide them: run it without KIND")
	}
	if lack := firstMissing(append([]string{programs.Executor}, boardPrograms...)); lack != "" {
		t.Skipf("%s is missing: make test-nodefence builds the executor's image, and says what to install", lack)
	}
	if shared != nil {
		do(t, shared.Close())
		shared = nil
	}
	c, err := cluster.Start(t.Context(), cluster.Config{
		Nodes: 4, Programs: programs, Room: inside, Kind: kind(t, programs), Manifest: cluster.ManifestIn(root), Guarded: true, Executor: true, Say: t.Logf,
	})
	do(t, err)
	f := &fencing{recovery: &recovery{c, newChecker(c.Volume(volumeName), func() string { return c.Storage().Node(volumeName) })}, boards: map[string]*nodeBoards{}}
	for i, name := range c.Names() {
		b := &nodeBoards{on: map[string]bool{"bmc": true, "second": true}, power: true}
		f.boards[name] = b
		port := firstPort + 10*i
		b.bmc = startBoard(t, c.Dir(), port, func(on bool) error { return f.supply(name, "bmc", on) })
		b.second = startBoard(t, c.Dir(), port+1, func(on bool) error { return f.supply(name, "second", on) })
		b.port = startBoard(t, c.Dir(), port+2, func(on bool) error {
			if on {
				return c.Heal(name)
			}
			return c.Cut(name)
		})
	}
	err = errors.Join(
		c.InstallNodeFence(t.Context(), cluster.ControllerManifestIn(root), cluster.NodeFenceManifestIn(root)),
		f.configure(t.Context(), isolated), f.password(t.Context(), boardPassword),
		c.AddVolume(t.Context(), volumeName, "default", "data-db-0"), c.Apply(t.Context(), database),
	)
	if err != nil {
		t.Fatal(errors.Join(err, c.Close()))
	}
	go f.k.watch(context.Background()) // until the program ends
	await(t, c, "the pod runs, with its volume", databaseRuns)
	return f
}

// supply switches a power supply of a node, which has power while any of its supplies is on.
func (f *fencing) supply(node, name string, on bool) error {
	b := f.boards[node]
	b.mu.Lock()
	b.on[name] = on
	want := b.on["bmc"] || b.on["second"]
	changed := want != b.power
	b.power = want
	b.mu.Unlock()
	switch {
	case !changed:
		return nil
	case !want:
		b.booting.Lock()
		defer b.booting.Unlock()
		return f.PowerOff(node)
	}
	// A machine needs time to boot, and its board answers before that.
	go func() {
		b.booting.Lock()
		defer b.booting.Unlock()
		if err := f.Boot(context.Background(), node); err != nil {
			b.mu.Lock()
			b.errs = append(b.errs, err)
			b.mu.Unlock()
		}
	}()
	return nil
}

// These are configurations of all nodes.
const (
	isolated  = "isolation=port-off\npower_management=bmc-off bmc-on\nrecovery=port-on\n"
	redundant = "isolation=port-off\npower_management=bmc-off second-off bmc-on second-on\nrecovery=port-on\n"
	plain     = "power_management=bmc-off bmc-on\n"
)

const clusterWide = `trigger_after=3
grace_timeout=30
giveup_retries=5
job_timeout=30
check_timeout=15
poll_interval=2
settle=5
max_unhealthy_percent=60
max_silent_percent=60
cooldown=0
`

// configure writes the ConfigMaps. A supply that no method switches is not connected.
func (f *fencing) configure(ctx context.Context, config string) error {
	var out strings.Builder
	object := func(name, key, text string) {
		fmt.Fprintf(&out, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata:\n  %s: |\n", name, cluster.ControllerSpace, key)
		for line := range strings.Lines(text) {
			out.WriteString("    " + line)
		}
		out.WriteString("\n")
	}
	object("fence-cluster-config", "config.properties", clusterWide)
	object("fence-method-template-board", "template.properties", fmt.Sprintf(
		"name=board\nagent_name=fence_ipmilan\nip=%s\nusername=fencing\npassword_secret=fencing-devices/board\npower_wait=0\n", boardAddress))
	for i, name := range f.Names() {
		object("fence-config-"+name, "config.properties", "node_name="+name+"\n"+config)
		for n, device := range []string{"bmc", "second", "port"} {
			for _, action := range []string{"off", "on"} {
				object(fmt.Sprintf("fence-method-%s-%s-%s", device, action, name), "method.properties",
					fmt.Sprintf("template=fence-method-template-board\nipport=%d\naction=%s\n", firstPort+10*i+n, action))
			}
		}
		b := f.boards[name]
		if two := strings.Contains(config, "second"); two != b.second.has() {
			b.second.mu.Lock()
			b.second.set(two)
			b.second.mu.Unlock()
		}
	}
	return f.Apply(ctx, out.String())
}

func (f *fencing) password(ctx context.Context, p string) error {
	return f.Apply(ctx, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: fencing-devices, namespace: %s}\nstringData: {board: %q}\n", cluster.ControllerSpace, p))
}
