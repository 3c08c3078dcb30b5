package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

// nodeFenceScenarios fence nodes by their management boards: the shipped controller, its Jobs with Debian's fence_ipmilan,
// boards of OpenIPMI that switch the nodes' power and the ports of their networks. No agent is in this cluster.
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
}

// fencing is a cluster whose nodes have boards.
type fencing struct {
	*recovery
	boards map[string]*nodeBoards
}

// nodeBoards are those of one node: for its supplies, and for its port.
type nodeBoards struct {
	bmc, second, port *board

	mu      sync.Mutex
	on      map[string]bool // supplies; guarded by mu
	power   bool            // guarded by mu
	booting sync.Mutex      // held while the node boots, or loses its power
	errs    []error         // guarded by mu
}

const (
	// IPMI 1.5 takes 16 octets and no more.
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
		t.Skip("the checker reads the processes of the nodes, which those with a kernel of their own do not show: run it without KIND")
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

// supply switches one of a node: it has power while any of them is on.
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
	go func() { // a machine takes its time, and its board does not
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

// Configurations of all nodes.
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
`

// configure writes the ConfigMaps. A supply that no method is about has no cable.
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

// nodeFence is what a NodeFence says, read without the product's own types.
type nodeFence struct {
	Metadata struct{ UID string }
	Status   struct {
		Step, Phase, Message string
		Retries              int
		Proof                *struct {
			Kind, Boot   string
			Contradicted bool
		}
		Jobs []fenceJob
	}
}

type fenceJob struct {
	Name, UID, Method, Role, Step, State, ExecutorNode, Message string
	Try                                                         int
}

func (f *fencing) nodeFence(node string) (*nodeFence, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	text, err := f.Client.CoreV1().RESTClient().Get().AbsPath("/apis/fencing-agent.io/v1alpha1/nodefences/node-fence-" + node).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var n nodeFence
	return &n, json.Unmarshal(text, &n)
}

// story is one fencing, as it is seen from outside.
type story struct {
	*recorder
	f     *fencing
	node  string
	began time.Time

	mu    sync.Mutex
	order []string // what was seen, in this order
	seen  map[string]time.Time
	last  *nodeFence          // as seen last
	jobs  map[string]fenceJob // by UID
}

// tell begins a story with a fault of the node that runs the pod.
func (f *fencing) tell(t *testing.T, fault func(node string) error) *story {
	t.Helper()
	await(t, f.Cluster, "the pod runs, and all nodes are Ready", databaseRuns, cluster.NodesReady(f.Names()...))
	p := look(t, f.Cluster).Pod("default", "db-0")
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	rec, err := record(ctx, f.Cluster, p.Spec.NodeName, string(p.UID))
	do(t, err)
	s := &story{recorder: rec, f: f, node: p.Spec.NodeName, seen: map[string]time.Time{}, jobs: map[string]fenceJob{}}
	s.began = time.Now()
	do(t, fault(s.node))
	go s.follow(ctx)
	return s
}

func (s *story) follow(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		n, err := s.f.nodeFence(s.node)
		if err != nil {
			continue
		}
		s.mu.Lock()
		s.take(n, time.Now())
		s.mu.Unlock()
	}
}

// take notes what is new. Called with mu.
func (s *story) take(n *nodeFence, now time.Time) {
	step := func(name string) {
		if _, ok := s.seen[name]; !ok {
			s.seen[name] = now
			s.order = append(s.order, name)
		}
	}
	if n == nil {
		if s.last != nil {
			step("gone")
		}
		return
	}
	s.last = n
	if n.Status.Step != "" {
		step(n.Status.Step + " " + n.Status.Phase)
	}
	if n.Status.Proof != nil {
		step("proof " + n.Status.Proof.Kind)
		if n.Status.Proof.Contradicted {
			step("contradicted")
		}
	}
	for _, j := range n.Status.Jobs {
		s.jobs[j.UID] = j
		step(fmt.Sprintf("%s %s %s", j.Role, j.Method, j.State))
	}
}

// saw reports when something was seen first; the zero time: it was not.
func (s *story) saw(what string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[what]
}

// now is the NodeFence as seen last.
func (s *story) now() nodeFence {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return nodeFence{}
	}
	return *s.last
}

// ends waits until the node is back, the NodeFence is gone and the pod runs, and judges all of it.
func (s *story) ends(t *testing.T) {
	t.Helper()
	s.until(t, "the NodeFence is gone", func() bool { return !s.saw("gone").IsZero() })
	await(t, s.f.Cluster, "all nodes are Ready, without a taint, and the pod runs", databaseRuns, cluster.NodesReady(s.f.Names()...), func(v *cluster.View) string {
		for name, n := range v.Nodes {
			if tainted(n) {
				return name + " carries the taint"
			}
		}
		return ""
	})
	s.judge(t)
}

func (s *story) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	defer func() {
		if t.Failed() {
			n := s.now()
			text, _ := json.MarshalIndent(n.Status, "", " ")
			t.Logf("the NodeFence: %s\nthe controller:\n%s", text, s.f.says(t))
		}
	}()
	until(t, what, limit, done)
}

// judge holds the story to the rules: one pod at a time; no proof of a node that had power; no Job on the victim; the port
// is back only when the power was off; no password anywhere.
func (s *story) judge(t *testing.T) {
	t.Helper()
	s.f.judgeWorkload(t, s.recorder)
	b := s.f.boards[s.node]
	for _, one := range []*board{b.bmc, b.second, b.port} {
		for _, err := range one.broken() {
			t.Error(err)
		}
	}
	b.mu.Lock()
	for _, err := range b.errs {
		t.Error(err)
	}
	b.mu.Unlock()
	s.mu.Lock()
	jobs, proof := s.jobs, s.seen["proof power"]
	s.mu.Unlock()
	off := b.bmc.when(false)
	if !proof.IsZero() && proof.Before(off) {
		t.Errorf("BROKEN: the proof came %v before the power was off", off.Sub(proof))
	}
	if at := s.recorder.when("tainted"); !at.IsZero() && at.Before(off) {
		t.Errorf("BROKEN: tainted %v before the power was off", off.Sub(at))
	}
	if back := b.port.when(true); back.After(s.began) && back.Before(off) {
		t.Errorf("BROKEN: the port was back %v before the power was off", off.Sub(back))
	}
	names := map[string]string{}
	for uid, j := range jobs {
		if j.ExecutorNode == s.node {
			t.Errorf("BROKEN: a Job ran on the victim: %+v", j)
		}
		if other := names[j.Name]; other != "" && other != uid {
			t.Errorf("BROKEN: %s ran twice", j.Name)
		}
		names[j.Name] = uid
	}
	s.f.masked(t)
}

// judgeWorkload is what the checker of the recoveries says.
func (f *fencing) judgeWorkload(t *testing.T, rec *recorder) {
	t.Helper()
	f.judge(t, rec)
}

// masked looks for the passwords in all that anybody may read without reading Secrets.
func (f *fencing) masked(t *testing.T) {
	t.Helper()
	text := kubectl(t, f.Cluster, "get", "nodefences,jobs,pods,events,configmaps,nodes", "-A", "-o", "yaml")
	text += kubectl(t, f.Cluster, "get", "events.events.k8s.io", "-A", "-o", "yaml") + f.says(t)
	logs, _ := filepath.Glob(filepath.Join(f.Dir(), "node-*", "log", "pods", cluster.ControllerSpace+"_*", "*", "*.log"))
	for _, path := range logs {
		content, err := os.ReadFile(path)
		do(t, err)
		text += string(content)
	}
	if len(logs) == 0 {
		t.Error("there are no logs of executors")
	}
	for _, p := range []string{boardPassword, wrongOne} {
		if i := strings.Index(text, p); i >= 0 {
			t.Errorf("BROKEN: a password is shown: ...%s", text[max(0, i-200):i])
		}
	}
}

// table says when what happened, in seconds after the fault.
func (s *story) table(t *testing.T, more map[string]time.Time) {
	t.Helper()
	all := map[string]time.Time{}
	s.mu.Lock()
	for k, v := range s.seen {
		all[k] = v
	}
	s.mu.Unlock()
	for _, k := range []string{"not ready", "tainted", "evicted", "gone", "created", "scheduled", "detached", "attached", "ready", "untainted"} {
		if at := s.recorder.when(k); !at.IsZero() {
			all["pod or Node: "+k] = at
		}
	}
	for k, v := range more {
		all[k] = v
	}
	names := make([]string, 0, len(all))
	for k := range all {
		names = append(names, k)
	}
	slices.SortFunc(names, func(a, b string) int { return all[a].Compare(all[b]) })
	var out strings.Builder
	for _, k := range names {
		if at := all[k]; at.After(s.began) {
			fmt.Fprintf(&out, "| %s | %.1f |\n", k, at.Sub(s.began).Seconds())
		}
	}
	t.Logf("seconds after the fault\n%s", out.String())
}

// nodeIs is the Node's condition Ready.
func (f *fencing) ready(node string) bool {
	n, err := f.Client.CoreV1().Nodes().Get(context.Background(), node, meta.GetOptions{})
	return err == nil && nodeIsReady(n)
}

// holdKubelet is the fault: the kubelet has ended, and the pod runs on.
func (f *fencing) holdKubelet(t *testing.T) func(node string) error {
	return func(node string) error { return f.HoldKubelet(t.Context(), node) }
}

// Guard: the whole way, with a node whose kubelet is gone and whose pod runs on.
func fencedAndBack(t *testing.T, f *fencing) {
	s := f.tell(t, f.holdKubelet(t))
	b := f.boards[s.node]
	s.until(t, "its power is proven to be off", func() bool { return !s.saw("proof power").IsZero() })
	s.until(t, "its replacement is Ready", func() bool { return !s.recorder.when("ready").IsZero() })
	s.until(t, "the Node is Ready again", func() bool { return f.ready(s.node) })
	back := time.Now()
	s.ends(t)
	more := map[string]time.Time{
		"board: port off": b.port.when(false), "board: power off": b.bmc.when(false), "board: port on": b.port.when(true), "board: power on": b.bmc.when(true), "the Node is Ready again": back,
	}
	s.table(t, more)
	var last time.Time
	for _, what := range []string{"board: port off", "board: power off", "board: port on", "board: power on", "the Node is Ready again"} {
		if more[what].Before(last) || more[what].Before(s.began) {
			t.Errorf("%s came at the wrong time, or never", what)
		}
		last = more[what]
	}
}

// stays holds while the pod of the story is left alone.
func (s *story) stays(t *testing.T, why string, during time.Duration) {
	t.Helper()
	hold(t, s.f.Cluster, "the pod is left alone: "+why, during, func(v *cluster.View) string {
		p := v.Pod("default", "db-0")
		if p == nil || string(p.UID) != s.uid || p.DeletionTimestamp != nil || tainted(v.Nodes[s.node]) {
			return "somebody has touched the pod, or tainted its node"
		}
		return ""
	})
}

// Guard: without its board a node is not proven dead; when the board is back, fencing goes on by itself.
func boardUnreachable(t *testing.T, f *fencing) {
	s := f.tell(t, func(node string) error {
		return errors.Join(f.boards[node].bmc.deaf(true), f.HoldKubelet(t.Context(), node))
	})
	b := f.boards[s.node]
	s.until(t, "cutting its power has failed twice", func() bool {
		n := s.now()
		return n.Status.Step == "power_management" && n.Status.Retries >= 1 && n.Status.Phase == "error"
	})
	s.stays(t, "its board does not answer", time.Second)
	n := s.now()
	t.Logf("%.1f s: two tries have failed: %s", time.Since(s.began).Seconds(), n.Status.Message)
	if n.Status.Proof != nil || !b.bmc.has() {
		t.Errorf("BROKEN: %+v", n.Status)
	}
	var where []string
	for _, j := range n.Status.Jobs {
		if j.Method == "bmc-off" && j.Role == "main" {
			where = append(where, fmt.Sprintf("try %d on %s", j.Try+1, j.ExecutorNode))
		}
	}
	t.Logf("the tries ran: %s", strings.Join(where, ", "))
	do(t, b.bmc.deaf(false))
	s.ends(t)
	s.table(t, map[string]time.Time{"board: power off": b.bmc.when(false)})
}

// Guard: with a wrong password nothing is switched and nothing is proven, and nobody is shown it.
func wrongPassword(t *testing.T, f *fencing) {
	do(t, f.password(t.Context(), wrongOne))
	defer func() { do(t, f.password(context.Background(), boardPassword)) }()
	s := f.tell(t, f.holdKubelet(t))
	b := f.boards[s.node]
	s.until(t, "the first method has failed", func() bool { return s.now().Status.Phase == "error" })
	s.stays(t, "no board has believed anybody", time.Second)
	n := s.now()
	t.Logf("%.1f s: %s", time.Since(s.began).Seconds(), n.Status.Message)
	if n.Status.Proof != nil || !b.bmc.has() || !b.port.has() {
		t.Errorf("BROKEN: %+v", n.Status)
	}
	f.masked(t)
	do(t, f.password(t.Context(), boardPassword))
	s.ends(t)
}

// Guard: a node with two supplies is off when both are, and not before; neither is on before that.
func twoSupplies(t *testing.T, f *fencing) {
	do(t, f.configure(t.Context(), redundant))
	defer func() { do(t, f.configure(context.Background(), isolated)) }()
	s := f.tell(t, func(node string) error {
		return errors.Join(f.boards[node].second.deaf(true), f.HoldKubelet(t.Context(), node))
	})
	b := f.boards[s.node]
	s.until(t, "one supply is off, and the other one's board has not answered", func() bool { n := s.now(); return !b.bmc.has() && n.Status.Phase == "error" })
	s.stays(t, "one of its two supplies is on", time.Second)
	if n := s.now(); n.Status.Proof != nil {
		t.Errorf("BROKEN: proven with a supply that is on: %+v", n.Status)
	}
	do(t, b.second.deaf(false))
	s.ends(t)
	s.table(t, map[string]time.Time{"board: first off": b.bmc.when(false), "board: second off": b.second.when(false), "board: first on": b.bmc.when(true), "board: second on": b.second.when(true)})
	off, on := b.second.when(false), b.bmc.when(true)
	if off.Before(s.began) || on.Before(off) {
		t.Errorf("BROKEN: the first supply was on again at %v, the second one off at %v", on, off)
	}
}

// Guard: a board that says off and has switched nothing proves nothing while the kubelet is heard.
func boardLies(t *testing.T, f *fencing) {
	do(t, f.configure(t.Context(), plain))
	defer func() { do(t, f.configure(context.Background(), isolated)) }()
	s := f.tell(t, func(node string) error {
		f.boards[node].bmc.lie(true)
		return f.HoldContainerd(t.Context(), node) // its kubelet says of itself that it is not Ready
	})
	b := f.boards[s.node]
	s.until(t, "the board has said off", func() bool { return !s.saw("proof power").IsZero() })
	s.until(t, "the kubelet is heard all the same, and the proof is contradicted", func() bool { return !s.saw("contradicted").IsZero() })
	s.stays(t, "its kubelet lives", 10*time.Second)
	n := s.now()
	s.table(t, nil)
	if n.Status.Phase != "givenUp" {
		t.Errorf("%+v", n.Status)
	}
	t.Logf("it says: %s", n.Status.Message)
	b.bmc.lie(false)
	do(t, f.FreeContainerd(t.Context(), s.node))
	s.until(t, "the Node is Ready again", func() bool { return f.ready(s.node) })
	kubectl(t, f.Cluster, "delete", "nodefence", "node-fence-"+s.node, "--wait=false")
	s.until(t, "the NodeFence is gone", func() bool { return !s.saw("gone").IsZero() })
	f.judge(t, s.recorder)
}

// Guard: the node that runs an executor dies with it, and another node does the next try. The dead one has simply no power:
// its board says so, and that is its proof.
func executorDies(t *testing.T, f *fencing) {
	s := f.tell(t, func(node string) error {
		return errors.Join(f.boards[node].bmc.deaf(true), f.HoldKubelet(t.Context(), node))
	})
	b := f.boards[s.node]
	var on string
	s.until(t, "an executor runs that cuts its power", func() bool {
		n := s.now()
		for _, j := range n.Status.Jobs {
			if j.Method != "bmc-off" || j.Role != "main" || j.State != "running" {
				continue
			}
			pods, err := f.Client.CoreV1().Pods(cluster.ControllerSpace).List(t.Context(), meta.ListOptions{LabelSelector: "job-name=" + j.Name})
			if err == nil && len(pods.Items) == 1 && pods.Items[0].Status.Phase == core.PodRunning {
				on = pods.Items[0].Spec.NodeName
			}
		}
		return on != ""
	})
	other := f.boards[on]
	other.bmc.mu.Lock()
	other.bmc.set(false) // somebody has pulled its plug
	other.bmc.mu.Unlock()
	do(t, b.bmc.deaf(false))
	t.Logf("%.1f s: %s has lost its power, with the executor", time.Since(s.began).Seconds(), on)
	s.ends(t)
	s.table(t, map[string]time.Time{"board: power off": b.bmc.when(false), "the executor's node has no power": other.bmc.when(false), "the executor's node has power": other.bmc.when(true)})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.Method == "bmc-off" && j.Role == "main" {
			t.Logf("try %d on %q: %s: %s", j.Try+1, j.ExecutorNode, j.State, j.Message)
			if j.Try > 0 && j.ExecutorNode == on {
				t.Errorf("BROKEN: tried again on the node that has died")
			}
		}
	}
}

// Guard: both controllers are killed whenever the NodeFence has gone on, and nothing is lost or done twice.
func controllersKilled(t *testing.T, f *fencing) {
	s := f.tell(t, f.holdKubelet(t))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	kills := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		last := ""
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			n := s.now()
			now := fmt.Sprint(n.Status.Step, n.Status.Phase, n.Status.Proof != nil, len(n.Status.Jobs))
			if now == last || n.Metadata.UID == "" {
				continue
			}
			last = now
			if _, err := f.Plane.Kubectl(ctx, "", "-n", cluster.ControllerSpace, "delete", "pods", "-l", "app.kubernetes.io/name=fencing-controller", "--grace-period=0", "--force"); err == nil {
				kills++
			}
		}
	}()
	s.ends(t)
	stop()
	<-done
	s.table(t, nil)
	t.Logf("both controllers were killed %d times", kills)
	if kills < 5 {
		t.Errorf("only %d times", kills)
	}
}
