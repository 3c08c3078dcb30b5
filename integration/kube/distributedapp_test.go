package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

const (
	operatorSpace = "distributedapp-operator"
	appPath       = "/apis/fencing-agent.io/v1alpha1"
	// within is T of k8s/distributedapp: this long after the last event, an app must be in its desired state.
	within = 75 * time.Second
)

// appWorld is a real API server and processes of the operator, with the rights of its manifest. Each process reaches
// the server through a proxy that checks its writes, and its gossip passes a gate.
type appWorld struct {
	t        *testing.T
	plane    *controlplane.ControlPlane
	admin    *kubernetes.Clientset
	token    string
	space    string
	keys     string
	replicas []*operatorProcess

	mu     sync.Mutex
	writes map[string]int // the number of writes of each kind
	blind  []string       // writes without a precondition
}

// operatorProcess is one replica.
type operatorProcess struct {
	name  string
	gate  *gossipGate
	proxy *controlplane.Proxy
	log   string
	kill  func()
	dead  bool
}

var applyOperator sync.Once

func newAppWorld(t *testing.T, space string, n int) *appWorld {
	t.Helper()
	p := plane(t)
	text, err := os.ReadFile("../../deploy/distributedapp/operator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	applyOperator.Do(func() {
		apply(t, p, string(text))
		if _, err := p.Kubectl(t.Context(), "", "wait", "--for=condition=Established", "--timeout=60s", "crd/distributedapps.fencing-agent.io"); err != nil {
			t.Fatal(err)
		}
	})
	w := &appWorld{t: t, plane: p, admin: client(t, p.Admin()), space: space, writes: map[string]int{}}
	if w.token, err = p.ServiceAccountToken(t.Context(), operatorSpace, operatorSpace, ""); err != nil {
		t.Fatal(err)
	}
	namespace(t, p, space)
	account := &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: "default"}}
	if _, err := w.admin.CoreV1().ServiceAccounts(space).Create(t.Context(), account, meta.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	w.keys = filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(w.keys, []byte("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.podGC()
	for range n {
		w.join()
	}
	await(t, "the replicas see each other", func() bool { return w.see(n) })
	return w
}

// podGC removes pods that are on no node and are being deleted, as kube-controller-manager does every 20 s. If the
// sender of a deletion is killed, such a pod can remain: the API server has marked it, and gives up before it removes
// it.
func (w *appWorld) podGC() {
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			list, err := w.admin.CoreV1().Pods(w.space).List(ctx, meta.ListOptions{})
			if err != nil {
				continue
			}
			for i := range list.Items {
				if p := &list.Items[i]; p.DeletionTimestamp != nil && p.Spec.NodeName == "" {
					_ = w.admin.CoreV1().Pods(w.space).Delete(ctx, p.Name, meta.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &meta.Preconditions{UID: &p.UID}})
				}
			}
		}
	})
	w.t.Cleanup(func() { cancel(); wg.Wait() })
}

// see reports whether each living replica has logged that the others are there.
func (w *appWorld) see(n int) bool {
	for _, r := range w.replicas {
		if !r.dead && strings.Count(read(r.log), `"msg":"a replica has joined"`) < n { // itself included
			return false
		}
	}
	return true
}

// join starts another replica.
func (w *appWorld) join() *operatorProcess {
	w.t.Helper()
	r := &operatorProcess{name: fmt.Sprintf("%s-%d", w.space, len(w.replicas)), gate: newGossipGate(w.t), proxy: newProxy(w.t, w.plane)}
	r.proxy.Fault(w.record)
	dir := w.t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	r.log = filepath.Join(w.plane.Dir(), r.name+".log")
	if err := w.plane.WriteKubeconfig(kubeconfig, r.proxy.URL(), w.token); err != nil {
		w.t.Fatal(err)
	}
	port := freePort(w.t, "127.0.0.1")
	r.gate.to(fmt.Sprintf("127.0.0.1:%d", port))
	peers := []string{fmt.Sprintf("127.0.0.1:%d", r.gate.port)}
	for _, o := range w.replicas {
		peers = append(peers, fmt.Sprintf("127.0.0.1:%d", o.gate.port))
	}
	bin := os.Getenv(programsEnv)
	if bin == "" {
		bin = "../../bin"
	}
	cmd := exec.Command(filepath.Join(bin, "distributedapp-operator"), "--kubeconfig", kubeconfig, "--name", r.name, "--namespace", operatorSpace,
		"--gossip-address", "127.0.0.1", "--gossip-port", fmt.Sprint(port), "--advertise-address", "127.0.0.1", "--advertise-port", fmt.Sprint(r.gate.port),
		"--peers", strings.Join(peers, ","), "--key-file", w.keys, "--rejoin-interval", "1s", "--probe-interval", "2s", "--probe-timeout", "1s", "--metrics-address", "0", "--health-address", "0", "--log-level", "debug")
	out, err := os.OpenFile(r.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	done := make(chan struct{})
	if err := controlplane.StartChild(cmd, func(error) { close(done) }); err != nil {
		w.t.Fatalf("%v: run make build", err)
	}
	r.kill = func() {
		_ = cmd.Process.Kill() // it may already have ended
		<-done
		r.dead = true
	}
	w.t.Cleanup(r.kill)
	w.replicas = append(w.replicas, r)
	return r
}

// record checks the precondition of each write, and lets the write pass.
func (w *appWorld) record(rw http.ResponseWriter, r *http.Request, forward http.Handler) {
	if r.Method == http.MethodGet {
		forward.ServeHTTP(rw, r)
		return
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	sure := false
	switch r.Method {
	case http.MethodPatch:
		var body struct {
			Metadata struct{ ResourceVersion string }
		}
		sure = json.Unmarshal(text, &body) == nil && body.Metadata.ResourceVersion != ""
	case http.MethodDelete, http.MethodPost: // these are about pods, in protobuf
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
		switch o := o.(type) {
		case *core.Pod:
			sure = err == nil && o.Name != "" && o.GenerateName == ""
		case *meta.DeleteOptions:
			p := o.Preconditions
			sure = err == nil && p != nil && p.UID != nil && *p.UID != "" && p.ResourceVersion != nil && *p.ResourceVersion != ""
		}
	}
	w.mu.Lock()
	w.writes[r.Method]++
	if !sure {
		w.blind = append(w.blind, fmt.Sprintf("%s %s: %.300q", r.Method, r.URL.Path, text))
	}
	w.mu.Unlock()
	forward.ServeHTTP(rw, r)
}

// judge reports writes without a precondition.
func (w *appWorld) judge() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.blind) > 0 || w.writes[http.MethodPatch] == 0 || w.writes[http.MethodPost] == 0 {
		w.t.Errorf("%d writes without a precondition: %v", len(w.blind), w.blind)
	}
	requests, err := w.plane.Requests(func(r controlplane.Request) bool {
		return r.UserAgent == operatorSpace && strings.Contains(r.User.Name, operatorSpace) && (r.Verb == "patch" || r.Verb == "create" || r.Verb == "delete" || r.Verb == "update")
	})
	if err != nil {
		w.t.Fatal(err)
	}
	count := map[string]int{}
	for _, r := range requests {
		if r.Object.Namespace == w.space {
			count[fmt.Sprintf("%s %d", r.Verb, r.Response.Code)]++
		}
	}
	w.t.Logf("writes: %v, 0 without a precondition; by the audit log, with their answers: %v", w.writes, count)
}

// The first replica is killed while an app is being deleted, and the others still list it.
func TestOperatorOwnerDiesDuringCollection(t *testing.T) {
	w := newAppWorld(t, "collect", 3)
	w.make("web", 30)
	w.make("api", 3)
	w.until("the apps are as they should be", func() bool { return w.settled("") })
	first := w.first("web")
	w.erase("web")
	await(t, "it has begun", func() bool { return w.pods()["web"] < 28 })
	first.kill()
	left := w.pods()["web"]
	began := time.Now()
	goes := w.until("another replica continues", func() bool { return w.pods()["web"] < left })
	await(t, "its death is known", func() bool {
		return !slices.ContainsFunc(w.replicas, func(r *operatorProcess) bool { return !r.dead && !strings.Contains(read(r.log), "a replica is gone") })
	})
	known := time.Since(began)
	w.until("the app is gone", func() bool { return len(w.apps().Items) == 1 && w.pods()["web"] == 0 })
	t.Logf("killed with %d of 30 pods left: another one continued after %v, the death was known after %v, the app was gone after %v", left, goes, known.Round(10*time.Millisecond), time.Since(began).Round(10*time.Millisecond))
	if left == 0 {
		t.Error("it was over before the kill")
	}
	w.until("the other app is as it should be", func() bool { return w.settled("") })
	w.judge()
}

// Three replicas join at once, and then three more, while apps are created and deleted.
func TestOperatorStormOfJoins(t *testing.T) {
	w := newAppWorld(t, "storm", 3)
	for i := range 8 {
		w.make(fmt.Sprintf("app-%d", i), 2)
	}
	for i := range 4 {
		w.join()
		w.make(fmt.Sprintf("more-%d", i), 1)
		if i%2 == 0 {
			w.erase(fmt.Sprintf("app-%d", i))
		}
	}
	took := w.until("all apps are as they should be, and two are gone", func() bool { return len(w.apps().Items) == 10 && w.settled("") })
	t.Logf("seven replicas: all was as it should be %v after the last of it", took)
	await(t, "all see all", func() bool { return w.see(7) })
	w.judge()
}

// The gossip is cut between all replicas, one of them also has no API server, and the configuration changes.
func TestOperatorConfigurationDuringAPartition(t *testing.T) {
	w := newAppWorld(t, "parted", 3)
	for i := range 4 {
		w.make(fmt.Sprintf("app-%d", i), 1)
	}
	w.until("the apps are as they should be", func() bool { return w.settled("") })
	alone := w.first("app-0")
	for _, r := range w.replicas {
		r.gate.close()
	}
	alone.proxy.Freeze()
	version := w.configure(7)
	took := w.until("the apps are reconciled by the new configuration", func() bool { return w.settled(version) })
	t.Logf("with the gossip cut and one replica without an API server: all %d apps by the new configuration after %v", 4, took)
	for _, a := range w.apps().Items {
		if a.Status.ReconciledByPod == alone.name {
			t.Errorf("%s cannot have been reconciled by %s", a.Metadata.Name, alone.name)
		}
	}
	w.make("late", 2)
	w.until("a new app is as it should be", func() bool { return w.settled(version) })
	pod, err := w.admin.CoreV1().Pods(w.space).Get(t.Context(), "late-0", meta.GetOptions{})
	if err != nil || *pod.Spec.TerminationGracePeriodSeconds != 7 {
		t.Errorf("a pod by the new configuration: %v", err)
	}
	alone.proxy.Thaw()
	for _, r := range w.replicas {
		r.gate.open()
	}
	await(t, "the one that was alone has the configuration", func() bool {
		return strings.Contains(read(alone.log), fmt.Sprintf(`"msg":"a new configuration is in use","pod":%q,"version":%s`, alone.name, version))
	})
	w.judge()
}

// This test measures the time until another replica works after the first one is killed, and the same for a leader by
// Lease.
func TestOperatorTakeover(t *testing.T) {
	var mine, leader []time.Duration
	for run := range takeovers {
		// It ends its processes, which watch all namespaces.
		t.Run(fmt.Sprint("replica ", run), func(t *testing.T) {
			w := newAppWorld(t, fmt.Sprintf("takeover-%d", run), 3)
			w.make("before", 1)
			w.until("an app is as it should be", func() bool { return w.settled("") })
			w.first("web").kill()
			w.make("web", 1)
			mine = append(mine, w.until("another replica makes the pod", func() bool { return w.pods()["web"] == 1 }))
			w.judge()
		})
	}
	t.Run("leaders", func(t *testing.T) {
		var mu sync.Mutex // guards leader
		for run := range takeovers {
			t.Run(fmt.Sprint(run), func(t *testing.T) {
				t.Parallel()
				missed := missedLeader(t)
				mu.Lock()
				defer mu.Unlock()
				leader = append(leader, missed)
			})
		}
	})
	if len(mine) != takeovers || len(leader) != takeovers {
		t.Fatalf("%d and %d of %d were measured", len(mine), len(leader), takeovers)
	}
	for what, list := range map[string][]time.Duration{"the first of three replicas, killed: to the pod by another": mine, "a leader by Lease, killed: to the next leader": leader} {
		slices.Sort(list)
		round := func(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
		t.Logf("%s: median %v, least %v, most %v", what, round(list[len(list)/2]), round(list[0]), round(list[len(list)-1]))
	}
	if mine[len(mine)/2] > 8*time.Second {
		t.Errorf("another replica takes longer than its pause and a moment: %v", mine)
	}
}

// The policies forbid what the roles leave open.
func TestOperatorMayDoNothingElse(t *testing.T) {
	w := newAppWorld(t, "rights", 0)
	w.make("web", 1)
	as := client(t, w.plane.As(w.token))
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "x"}, Spec: core.PodSpec{Containers: []core.Container{{Name: "c", Image: "i"}}}}
	await(t, "the policies are in force", func() bool {
		_, err := as.CoreV1().Pods(w.space).Create(t.Context(), pod, meta.CreateOptions{DryRun: []string{meta.DryRunAll}})
		return apierrors.IsForbidden(err)
	})
	if err := as.CoreV1().RESTClient().Patch("application/merge-patch+json").AbsPath(w.path("web")).Body([]byte(`{"spec":{"replicas":5}}`)).Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
		t.Errorf("it changes a spec: %v", err)
	}
	if _, err := w.admin.CoreV1().Pods(w.space).Create(context.WithoutCancel(t.Context()), pod, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := as.CoreV1().Pods(w.space).Delete(t.Context(), "x", meta.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("it deletes a pod without an owner: %v", err)
	}
	long := strings.Repeat("n", 53)
	body := fmt.Sprintf(`{"apiVersion":"fencing-agent.io/v1alpha1","kind":"DistributedApp","metadata":{"name":%q},"spec":{"replicas":1,"applicationImage":"i"}}`, long)
	if err := w.rest().Post().AbsPath(w.path("")).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error(); !apierrors.IsInvalid(err) {
		t.Errorf("a name of 53 characters: %v", err)
	}
}
