package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
	"github.com/fencing-agent/fencing-agent/integration/cluster/csi"
)

// storageScenarios test fencing-controller storage on real kubelets, beside kube-controller-manager. The test plays the
// API of a storage, and reports that a node is offline when it has lost its power.
var storageScenarios = []struct {
	name string
	do   func(t *testing.T, s *storageWorld)
}{
	{"delete", storageDeletes},
	{"taint", storageWaitsForTheTaint},
}

// storageVolume is the CSI handle of the pod's volume.
const storageVolume = "default/db-0"

// storageWorld is a cluster without agents, with a StatefulSet of one pod that opts in, and a storage.
type storageWorld struct {
	*kubernetes
	api *storageAPI
}

// storageAPI is the API of a storage that runs on the cluster's nodes.
type storageAPI struct {
	mu      sync.Mutex
	nodes   []string
	offline map[string]bool // guarded by mu
}

func (a *storageAPI) set(node string, offline bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.offline[node] = offline
}

func (a *storageAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type node struct {
		Name   string `json:"name"`
		Health string `json:"health"`
	}
	var answer any
	switch r.URL.Path {
	case "/v2/nodes":
		a.mu.Lock()
		var list []node
		for _, n := range a.nodes {
			health := "online"
			if a.offline[n] {
				health = "offline"
			}
			list = append(list, node{n, health})
		}
		a.mu.Unlock()
		answer = list
	case "/v2/namespaces/default/volumes/db-0":
		answer = map[string]any{"id": "db-0", "Master": map[string]string{"health": "online"}}
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(answer) // the client may have gone
}

func TestStorage(t *testing.T) {
	var s *storageWorld
	for _, sc := range storageScenarios {
		t.Run(sc.name, func(t *testing.T) {
			if s == nil {
				s = startStorageWorld(t)
			}
			began := time.Now()
			sc.do(t, s)
			t.Logf("%s: %.1f s", sc.name, time.Since(began).Seconds())
		})
	}
	if s != nil {
		do(t, s.Close())
	}
}

func startStorageWorld(t *testing.T) *storageWorld {
	t.Helper()
	c := guarded(t, 3)
	folder := c.Volume(storageVolume)
	err := errors.Join(os.MkdirAll(folder, 0o777), c.Apply(t.Context(), fmt.Sprintf(`apiVersion: v1
kind: PersistentVolume
metadata: {name: db-0}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  claimRef: {namespace: default, name: data-db-0}
  csi: {driver: %s, volumeHandle: %s}
`, csi.Driver, storageVolume)), c.Apply(t.Context(), database), c.Apply(t.Context(), tolerant))
	if err != nil {
		t.Fatal(errors.Join(err, c.Close()))
	}
	kubectl(t, c, "patch", "statefulset", "db", "--type=merge", "--patch", `{"spec":{"template":{"metadata":{"labels":{"fencing-agent.io/fenced":"true"}}}}}`)
	s := &storageWorld{
		kubernetes: &kubernetes{recovery: &recovery{c, newChecker(folder, func() string { return c.Storage().Node(storageVolume) })}},
		api:        &storageAPI{nodes: c.Names(), offline: map[string]bool{}},
	}
	go s.k.watch(context.Background()) // until the program ends
	await(t, c, "the pod that opts in runs", databaseRuns, func(v *cluster.View) string {
		if v.Pod("default", "db-0").Labels["fencing-agent.io/fenced"] == "" {
			return "it is still the old pod"
		}
		return ""
	})
	return s
}

// fencer runs the program until the end of the scenario, with the service account of the shipped manifest.
func (s *storageWorld) fencer(t *testing.T, flags ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "controller", "storage.yaml"))
	do(t, err)
	apply(t, s.Cluster, "apiVersion: v1\nkind: Namespace\nmetadata: {name: fencing-controller}\n")
	apply(t, s.Cluster, string(text))
	kubectl(t, s.Cluster, "-n", "fencing-controller", "scale", "deployment/fencing-storage", "--replicas=0")
	token, err := s.Plane.ServiceAccountToken(t.Context(), "fencing-controller", "fencing-storage", "")
	do(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	do(t, s.Plane.WriteKubeconfig(kubeconfig, s.Plane.URL(), token))
	server := httptest.NewServer(s.api)
	t.Cleanup(server.Close)
	programs, err := cluster.ProgramsIn(root)
	do(t, err)
	cmd := exec.Command(programs.Controller, append([]string{
		"storage", "--storage-url", server.URL + "/v2", "--driver", csi.Driver, "--kubeconfig", kubeconfig, "--dry-run=false",
		"--metrics-address", "127.0.0.1:0", "--health-address", "127.0.0.1:0", "-node-poll-interval", "1s",
	}, flags...)...)
	cmd.Stderr = &logWriter{t: t}
	do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may already have ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("fencing-controller storage: %v", err)
		}
	})
}

// held tries what the policies of the manifest must forbid this account.
func (s *storageWorld) held(t *testing.T) {
	t.Helper()
	node := s.Names()[0]
	refused := func(args ...string) bool {
		out, err := s.Plane.Kubectl(t.Context(), "", append([]string{"--as=system:serviceaccount:fencing-controller:fencing-storage"}, args...)...)
		return err != nil && (strings.Contains(out+err.Error(), "fencing-storage may") || strings.Contains(out+err.Error(), "fencing-storage keeps"))
	}
	patch := func(what string) []string { return []string{"patch", "node", node, "--type=merge", "--patch", what} }
	until(t, "the policies are in force", limit, func() bool {
		return refused(patch(fmt.Sprintf(`{"metadata":{"labels":{"x":"%d"}}}`, time.Now().UnixNano()))...)
	})
	for what, args := range map[string][]string{
		"a pod without preconditions": {"delete", "pod", "--namespace=default", "db-0", "--wait=false", "--grace-period=0", "--force", "--dry-run=server"},
		"another taint":               patch(`{"spec":{"taints":[{"key":"` + outOfService + `","effect":"NoExecute"}]}}`),
		"a taint that evicts":         patch(`{"spec":{"taints":[{"key":"fencing-agent.io/storage-offline","effect":"NoExecute"}]}}`),
	} {
		if !refused(args...) {
			t.Errorf("%s is not refused", what)
		}
	}
}

// logWriter writes the program's log into the log of the test.
type logWriter struct{ t *testing.T }

func (w *logWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

// elsewhereAfter waits until the replacement writes, and logs the time of each step.
func (s *storageWorld) elsewhereAfter(t *testing.T, rec *recorder, from time.Time, what string) {
	t.Helper()
	until(t, "the replacement runs elsewhere", limit, func() bool {
		uid, _ := rec.replacement()
		got, ok := s.wrote(t, uid)
		if ok {
			rec.note("running", got.first)
		}
		return ok
	})
	for _, step := range []string{"gone", "scheduled", "detached", "attached", "running"} {
		if at := rec.when(step); !at.IsZero() {
			t.Logf("%s %.2f s after %s", step, at.Sub(from).Seconds(), what)
		}
	}
}

// back restores the node's power and the health of its storage.
func (s *storageWorld) back(t *testing.T, node string, rec *recorder) {
	t.Helper()
	do(t, s.Boot(t.Context(), node))
	s.api.set(node, false)
	await(t, s.Cluster, "no taint of the storage is left", cluster.NodesReady(s.Names()...), func(v *cluster.View) string {
		for name, n := range v.Nodes {
			for _, taint := range n.Spec.Taints {
				if taint.Key == "fencing-agent.io/storage-offline" {
					return name + " is tainted"
				}
			}
		}
		return ""
	})
	s.settle(t, rec)
}

// Guard: when a storage that refuses writes reports a node offline, the pod runs elsewhere with its volume, and not
// before. There is no proof from the agents, and nothing else on that node is touched.
func storageDeletes(t *testing.T, s *storageWorld) {
	s.fencer(t, "--cleanup", "delete", "--storage-refuses-writes")
	n, p, rec := s.lose(t)
	hold(t, s.Cluster, "the pod is left alone while its storage reports nothing", 5*time.Second, func(v *cluster.View) string {
		if now := v.Pod("default", "db-0"); now == nil || now.UID != p.UID || now.DeletionTimestamp != nil {
			return fmt.Sprint(now)
		}
		return ""
	})
	began := time.Now()
	s.api.set(n.Name, true)
	s.elsewhereAfter(t, rec, began, "the storage had given the node up")
	v := look(t, s.Cluster)
	if tainted(v.Nodes[n.Name]) {
		t.Error("the Node was tainted out-of-service")
	}
	if tolerantOn(v, n.Name) == nil {
		t.Error("a pod that has not opted in was deleted")
	}
	s.back(t, n.Name, rec)
}

// Guard: the report of a storage that does not refuse writes is not enough. With the taint the pod is deleted, and
// Kubernetes releases the volume.
func storageWaitsForTheTaint(t *testing.T, s *storageWorld) {
	s.fencer(t, "--cleanup", "taint")
	s.held(t)
	n, p, rec := s.lose(t)
	s.api.set(n.Name, true)
	hold(t, s.Cluster, "the pod is left alone without a proof", 5*time.Second, func(v *cluster.View) string {
		if now := v.Pod("default", "db-0"); now == nil || now.UID != p.UID || now.DeletionTimestamp != nil {
			return fmt.Sprint(now)
		}
		return ""
	})
	began := time.Now()
	s.taint(t, n.Name)
	s.elsewhereAfter(t, rec, began, "a person had set the taint")
	s.back(t, n.Name, rec)
}
