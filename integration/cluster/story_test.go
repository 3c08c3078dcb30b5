package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

// nodeFence contains fields of a NodeFence, read without the product's own types.
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

// story is one fencing as it is observed from outside.
type story struct {
	*recorder
	f     *fencing
	node  string
	began time.Time

	mu    sync.Mutex
	order []string // what was seen, in this order
	seen  map[string]time.Time
	last  *nodeFence          // its last state
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

// take records what is new. The caller holds mu.
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

// saw returns when something was first seen; the zero time: it was not.
func (s *story) saw(what string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[what]
}

// now returns the last state of the NodeFence.
func (s *story) now() nodeFence {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return nodeFence{}
	}
	return *s.last
}

// ends waits until the node is back, the NodeFence is gone and the pod runs, and judges the whole story.
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

// judge checks the rules: there is one pod at a time; the death of a node with power is never proven; no Job runs on
// the victim; the port is back only when the power was off; no password is shown.
func (s *story) judge(t *testing.T) {
	t.Helper()
	s.f.judge(t, s.recorder)
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

// masked looks for the passwords in everything that can be read without the right to read Secrets.
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

// table logs what happened when, in seconds after the fault.
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

// ready reports the Node's condition Ready.
func (f *fencing) ready(node string) bool {
	n, err := f.Client.CoreV1().Nodes().Get(context.Background(), node, meta.GetOptions{})
	return err == nil && nodeIsReady(n)
}

// holdKubelet returns this fault: the kubelet has ended, and the pod still runs.
func (f *fencing) holdKubelet(t *testing.T) func(node string) error {
	return func(node string) error { return f.HoldKubelet(t.Context(), node) }
}

// stays checks for a while that the pod of the story is left alone.
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
