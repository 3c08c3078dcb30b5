package kube

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

const (
	// scaleEnv names the variable that enables the long measurement, with its size: Nodes, dead ones, pods of each,
	// such as 500,50,40.
	scaleEnv = "FENCING_SCALE"
	// scaleEvictions is the number of pods a second that the test evicts in place of kube-controller-manager, which
	// evicts 6 to 17.
	scaleEvictions = 15
	scaleWorkers   = 16
	scaleLabel     = "scale/dead"
)

// scaleWorld is the large cluster of TestControllerAtScale.
type scaleWorld struct {
	*recoveryWorld
	nodes, dead, pods int
	gone              map[string]bool // dead nodes whose taint the test has seen
}

func scaleName(i int) string { return fmt.Sprintf("scale-%03d", i) }

// each calls do for all numbers below n, several at a time.
func each(n int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range scaleWorkers {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// populate creates Nodes, Leases and pods. The first Nodes are dead: their Ready is Unknown, and their Leases have
// expired.
func (w *scaleWorld) populate() {
	w.t.Helper()
	w.account("default")
	var failed sync.Map
	each(w.nodes, func(i int) {
		n := &core.Node{ObjectMeta: meta.ObjectMeta{Name: scaleName(i), Labels: map[string]string{groupLabel: "scale"}}}
		ready, renewed := core.ConditionTrue, time.Now()
		if i < w.dead {
			n.Labels[scaleLabel] = "true"
			ready, renewed = core.ConditionUnknown, time.Now().Add(-time.Hour)
		}
		made, err := w.admin.CoreV1().Nodes().Create(w.t.Context(), n, meta.CreateOptions{})
		if err == nil {
			made.Status.NodeInfo.BootID = fmt.Sprintf("%08x-b3a3-4be2-9d1c-0123456789ab", i+1)
			made.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: ready}}
			_, err = w.admin.CoreV1().Nodes().UpdateStatus(w.t.Context(), made, meta.UpdateOptions{})
		}
		if err == nil {
			seconds, at := int32(40), meta.NewMicroTime(renewed)
			_, err = w.admin.CoordinationV1().Leases("kube-node-lease").Create(w.t.Context(), &coordination.Lease{
				ObjectMeta: meta.ObjectMeta{Name: scaleName(i)}, Spec: coordination.LeaseSpec{LeaseDurationSeconds: &seconds, RenewTime: &at},
			}, meta.CreateOptions{})
		}
		if err != nil {
			failed.Store("a Node", err)
		}
	})
	no := false
	each(w.nodes*w.pods, func(i int) {
		node := i / w.pods
		p := &core.Pod{
			ObjectMeta: meta.ObjectMeta{Name: fmt.Sprintf("%s-%d", scaleName(node), i%w.pods), Namespace: "default", Labels: map[string]string{}},
			Spec:       core.PodSpec{NodeName: scaleName(node), AutomountServiceAccountToken: &no, Containers: []core.Container{{Name: "c", Image: "i"}}},
		}
		if node < w.dead {
			p.Labels[scaleLabel] = "true"
		}
		if _, err := w.admin.CoreV1().Pods("default").Create(w.t.Context(), p, meta.CreateOptions{}); err != nil {
			failed.Store("a pod", err)
		}
	})
	failed.Range(func(what, err any) bool {
		w.t.Fatalf("make %v: %v", what, err)
		return false
	})
}

// heartbeats renews the Leases of the living Nodes until the test ends, each every ten seconds, as kubelets do.
func (w *scaleWorld) heartbeats() {
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(10 * time.Second / time.Duration(w.nodes-w.dead))
		defer tick.Stop()
		for i := w.dead; ; i = w.dead + (i+1-w.dead)%(w.nodes-w.dead) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
			wg.Go(func() {
				_, _ = w.admin.CoordinationV1().Leases("kube-node-lease").Patch(ctx, scaleName(i), types.MergePatchType, []byte(patch), meta.PatchOptions{})
			})
		}
	})
	w.t.Cleanup(func() { cancel(); wg.Wait() })
}

// tell makes the agents of all living Nodes report all deaths. The reports are spread at random over
// 10 ms times the number of agents.
func (w *scaleWorld) tell() {
	var wg sync.WaitGroup
	for i := w.dead; i < w.nodes; i++ {
		var list []string
		for dead := range w.dead {
			list = append(list, fmt.Sprintf(`{\"node\":\"%s\",\"boot\":\"%08xb3a34be3\",\"proof\":\"time\",\"at\":\"2026-05-04T12:00:00Z\",\"said\":\"%08xb3a34be3\"}`,
				scaleName(dead), dead+1, i+1))
		}
		patch := `{"metadata":{"annotations":{"` + deathsKey + `":"[` + strings.Join(list, ",") + `]"}}}`
		after := time.NewTimer(time.Duration(rand.Int64N(int64((w.nodes - w.dead) * 10 * int(time.Millisecond)))))
		wg.Go(func() {
			<-after.C
			if err := patchNode(w.admin, scaleName(i), patch); err != nil {
				w.t.Errorf("tell: %v", err)
			}
		})
	}
	wg.Wait()
}

// evict gracefully deletes the pods of tainted Nodes, in the order of the taints, until the test ends.
func (w *scaleWorld) evict(tainted <-chan string) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second / scaleEvictions)
		defer tick.Stop()
		for {
			select {
			case node := <-tainted:
				for i := range w.pods {
					select {
					case <-tick.C:
						_ = w.admin.CoreV1().Pods("default").Delete(ctx, fmt.Sprintf("%s-%d", node, i), meta.DeleteOptions{})
					case <-ctx.Done():
						return
					}
				}
			case <-ctx.Done():
				return
			}
		}
	})
	w.t.Cleanup(func() { cancel(); wg.Wait() })
}

// taints looks for new taints.
func (w *scaleWorld) taints(tainted chan<- string) {
	list, err := w.admin.CoreV1().Nodes().List(w.t.Context(), meta.ListOptions{LabelSelector: scaleLabel, ResourceVersion: "0"})
	w.must(err)
	for i := range list.Items {
		n := &list.Items[i]
		for _, t := range n.Spec.Taints {
			if t.Key == outOfService && !w.gone[n.Name] {
				w.gone[n.Name] = true
				tainted <- n.Name
			}
		}
	}
}

// left returns the number of pods that the dead Nodes have.
func (w *scaleWorld) left() int {
	list, err := w.admin.CoreV1().Pods("default").List(w.t.Context(), meta.ListOptions{LabelSelector: scaleLabel, ResourceVersion: "0"})
	w.must(err)
	return len(list.Items)
}

// This test measures time, requests and memory when many Nodes are dead at once. It uses two replicas as processes and
// a real API server, and plays kubelets, agents and the eviction by taint.
func TestControllerAtScale(t *testing.T) {
	if os.Getenv(scaleEnv) == "" {
		t.Skip("takes many minutes: set " + scaleEnv + "=500,50,40")
	}
	w := &scaleWorld{recoveryWorld: newRecoveryWorld(t), gone: map[string]bool{}}
	if n, err := fmt.Sscanf(os.Getenv(scaleEnv), "%d,%d,%d", &w.nodes, &w.dead, &w.pods); n != 3 || err != nil {
		t.Fatalf("%s=%q: set it to Nodes,dead,pods of each, such as 500,50,40", scaleEnv, os.Getenv(scaleEnv))
	}
	began := time.Now()
	w.populate()
	t.Logf("%d Nodes and %d pods are created after %v", w.nodes, w.nodes*w.pods, time.Since(began).Round(time.Second))
	w.heartbeats()
	for _, name := range []string{"scale-a", "scale-b"} {
		w.replicaPod(name)
	}
	for _, name := range []string{"scale-a", "scale-b"} {
		w.replica(name, "dryRun: false\n")
	}
	quiet := time.NewTimer(15 * time.Second) // one round of heartbeats
	<-quiet.C
	idle := w.memory()
	tainted := make(chan string, w.dead)
	w.evict(tainted)
	began = time.Now()
	told := make(chan time.Duration, 1)
	go func() { w.tell(); told <- time.Since(began) }()
	var first, last time.Duration
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for deadline := began.Add(15 * time.Minute); w.left() > 0; <-tick.C {
		before := len(w.gone)
		if w.taints(tainted); len(w.gone) > before {
			if last = time.Since(began); before == 0 {
				first = last
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d pods are left after 15 min, %d Nodes are tainted", w.left(), len(w.gone))
		}
	}
	took := time.Since(began)
	t.Logf("all agents have reported after %v; first taint %v, last %v; last pod gone %v", (<-told).Round(100*time.Millisecond),
		first.Round(100*time.Millisecond), last.Round(100*time.Millisecond), took.Round(100*time.Millisecond))
	t.Logf("memory of the replicas: %s before, %s at most", idle, w.memory())
	w.requests(began, took)
	if len(w.gone) != w.dead {
		t.Errorf("%d Nodes were tainted", len(w.gone))
	}
}

// memory returns the largest resident set of each replica so far.
func (w *scaleWorld) memory() string {
	var out []string
	for _, pid := range w.pids {
		for line := range strings.Lines(read(fmt.Sprintf("/proc/%d/status", pid))) {
			if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				out = append(out, strings.TrimSpace(rest))
			}
		}
	}
	return strings.Join(out, ", ")
}

// requests logs what the replicas have requested from the API server.
func (w *scaleWorld) requests(since time.Time, during time.Duration) {
	w.t.Helper()
	list, err := w.plane.Requests(func(r controlplane.Request) bool {
		return strings.HasPrefix(r.User.Name, "system:serviceaccount:"+controllerSpace+":") && r.Received.After(since)
	})
	w.must(err)
	kinds, seconds, codes := map[string]int{}, map[int64]int{}, map[int]int{}
	most := 0
	for _, r := range list {
		kinds[r.Verb+" "+r.Object.Resource]++
		codes[r.Response.Code]++
		second := r.Received.Unix()
		seconds[second]++
		most = max(most, seconds[second])
	}
	w.t.Logf("requests of both replicas: %d, %.0f a second, at most %d in one; %v; %v", len(list), float64(len(list))/during.Seconds(), most, kinds, codes)
}
