package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/parts"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/k8stest"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

const disableAnnotation = "node-manager.deckhouse.io/fencing-disable"

// until waits until an agent's status meets a condition.
func (f *fleet) until(name, what string, ok func(*fencingv1.Status) bool) {
	f.t.Helper()
	deadline := time.After(fleetPatience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s := f.status(name)
		if ok(s) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			f.t.Fatalf("%s is not %s: %v %v", name, what, s.Verdict, s.Watchdog)
		}
	}
}

func armed(s *fencingv1.Status) bool {
	return s.Watchdog.GetState() == fencingv1.WatchdogState_WATCHDOG_STATE_ARMED
}

func disarmedWith(by string) func(*fencingv1.Status) bool {
	return func(s *fencingv1.Status) bool {
		return s.Watchdog != nil && !armed(s) && slices.ContainsFunc(s.Verdict.DisarmedBy, func(x string) bool { return strings.Contains(x, by) })
	}
}

// Guards: the last known state stays in force while the API server is away, also after a restart. A node whose Node was
// never seen is not armed.
func TestMaintenanceDisarmsWithAndWithoutTheAPIServer(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newFleet(t)
	s := k8stest.New(t)
	f.kube = func() *client.Client { return s.Client(t, nil) }
	three := []string{"n1", "n2", "n3"}
	for _, n := range three {
		f.configure(n, 0, three...)
		s.Put(k8stest.Node(n, nil))
	}
	f.start(three...)
	f.await(0, three...)
	for _, n := range three {
		f.until(n, "armed", armed)
	}
	f.mark()

	s.Update("n2", func(n *corev1.Node) { n.Annotations[disableAnnotation] = "" })
	f.until("n2", "disarmed", disarmedWith("annotation "+disableAnnotation))
	s.Refuse(true)
	f.stop("n2", nil)
	f.start("n2")
	f.until("n2", "disarmed after a restart without the API server", disarmedWith("annotation "+disableAnnotation))
	f.stop("n3", nil)
	f.start("n3")
	f.until("n3", "armed after a restart without the API server", armed)
	f.stop("n3", nil)
	if err := os.Remove(filepath.Join(f.dir, "n3-node.json")); err != nil {
		t.Fatal(err)
	}
	f.start("n3")
	f.until("n3", "held back, not knowing its Node", disarmedWith("has not shown this node's Node yet"))
	if !armed(f.status("n1")) {
		t.Error("n1 was disarmed by the outage")
	}

	s.Update("n2", func(n *corev1.Node) { delete(n.Annotations, disableAnnotation) })
	s.Refuse(false)
	f.until("n2", "armed again", armed)
	f.until("n3", "armed again", armed)
	s.Update("n1", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: ownnode.RemovalTaint, Effect: corev1.TaintEffectNoSchedule}}
	})
	f.until("n1", "disarmed", disarmedWith("taint "+ownnode.RemovalTaint))
	s.Delete("n1")
	f.until("n1", "disarmed", disarmedWith("the Node was deleted"))
	f.calm("n1")
}

func TestNodeMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "members-node.json")
	memory := func(node string) *nodeMemory {
		return newNodeMemory(path, node, slog.New(slog.DiscardHandler), ownnode.Rules{Disable: []string{"a"}})
	}
	if s := memory("n1").load(); s.Known {
		t.Errorf("%+v from no file", s)
	}
	m := memory("n1")
	state := ownnode.State{Known: true, Exists: true, UID: "u", Annotations: map[string]string{"a": "", "b": ""}}
	m.save(state)
	written, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	state.Annotations = map[string]string{"a": "", "b": "other"}
	m.save(state)
	if again, err := os.Stat(path); err != nil || !os.SameFile(written, again) {
		t.Errorf("written again for nothing: %v", err)
	}
	if s := memory("n1").load(); !s.Equal(memory("n1").rules.Memory(state)) {
		t.Errorf("loaded %+v", s)
	}
	if s := memory("n2").load(); s.Known {
		t.Errorf("%+v from another node's file", s)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := memory("n1").load(); s.Known {
		t.Errorf("%+v from a damaged file", s)
	}
}

// Guard: a new state that a full disk does not accept removes the old state from the file. So an agent that starts
// without the API server does not use the old one. The new state is stored as soon as there is room, even if the Node
// does not change again.
func TestNodeMemoryOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "members-node.json")
		rules := ownnode.Rules{Disable: []string{"a"}}
		known := func() ownnode.State { return newNodeMemory(path, "n1", slog.New(slog.DiscardHandler), rules).load() }
		var mu sync.Mutex // guards what the writer's goroutine shares
		var log strings.Builder
		var last error
		full := false
		fill := func(is bool) { mu.Lock(); defer mu.Unlock(); full = is }
		told := func() error { mu.Lock(); defer mu.Unlock(); return last }
		said := func() string { mu.Lock(); defer mu.Unlock(); return log.String() }
		m := newNodeMemory(path, "n1", slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return log.Write(p)
		}), nil)), rules)
		m.told = func(err error) { mu.Lock(); defer mu.Unlock(); last = err }
		m.write = func(path string, text []byte) error {
			mu.Lock()
			isFull := full
			mu.Unlock()
			if isFull {
				return unix.ENOSPC
			}
			return statefile.Write(path, text)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go m.run(ctx)
		plain := ownnode.State{Known: true, Exists: true, UID: "u"}
		m.keep(plain)
		synctest.Wait()
		if told() != nil || !known().Equal(rules.Memory(plain)) {
			t.Fatalf("%v, and knows %+v", told(), known())
		}
		fill(true)
		disabled := plain
		disabled.Annotations = map[string]string{"a": ""}
		m.keep(disabled)
		synctest.Wait()
		if s := known(); s.Known || !errors.Is(told(), unix.ENOSPC) {
			t.Errorf("%v, and a restart would go by %+v", told(), s)
		}
		time.Sleep(10 * memoryRetry)
		synctest.Wait()
		if n := strings.Count(said(), "cannot store what this agent knows about this node's Node"); n != 1 {
			t.Errorf("it is said %d times:\n%s", n, said())
		}
		fill(false)
		time.Sleep(memoryRetry)
		synctest.Wait()
		if s := known(); told() != nil || !s.Equal(rules.Memory(disabled)) {
			t.Errorf("there is room again: %v, and knows %+v", told(), s)
		}
		stop()
		synctest.Wait()
		for i := range 30 { // the end or the state may be handled first
			s := []ownnode.State{plain, disabled}[i%2]
			m.keep(s)
			m.run(ctx)
			if got := known(); !got.Equal(rules.Memory(s)) {
				t.Fatalf("stopped with %+v", got)
			}
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Guard: a kubeconfig that cannot be used is reported as a missing part and does not end the start: networks and LUN
// decide without it. Only where a Lease breaks ties does the start fail.
func TestStartsWithoutItsKubeconfig(t *testing.T) {
	cfg := config.Default()
	cfg.Cluster, cfg.NodeGroup, cfg.NodeName = "main", "worker", "n1"
	cfg.Kubernetes.Kubeconfig = filepath.Join(t.TempDir(), "kubelet.conf")
	log := slog.New(slog.DiscardHandler)
	a := &Agent{cfg: cfg, log: log, clock: boottime.Now, opts: Options{Registry: prometheus.NewRegistry()}, published: published{parts: parts.New(log, prometheus.NewRegistry())}}
	if err := a.openKubernetes(); err != nil || a.kube.client == nil {
		t.Fatal(err)
	}
	if m := a.published.parts.Missing(); len(m) != 1 || m[0].Part != kubePart || !strings.Contains(m[0].Problem, "no such file or directory; the API server counts as unreachable") {
		t.Errorf("%+v", m)
	}
	if _, err := a.openLease(nil); err == nil || !strings.Contains(err.Error(), "kubelet.conf") {
		t.Errorf("a Lease of an unknown namespace: %v", err)
	}
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
		"users: [{name: u, user: {token: secret}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
	if err := os.WriteFile(cfg.Kubernetes.Kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		a.startKubernetes(func(f func(context.Context)) { f(t.Context()) })
	})
	if err := a.kube.client.Ready(); err != nil || len(a.published.parts.Missing()) > 0 {
		t.Errorf("%v, %+v", err, a.published.parts.Missing())
	}
}
