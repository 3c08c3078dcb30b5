package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fencing-agent/fencing-agent/k8s/ownership"
)

// takeovers is the number of measurements of each takeover.
const takeovers = 5

// pair runs two replicas that see each other's pods, and returns a function that kills the one that comes first for
// rec-4.
func (w *recoveryWorld) pair(run int) (killFirst func()) {
	w.t.Helper()
	names := []string{fmt.Sprintf("pair-%d-a", run), fmt.Sprintf("pair-%d-b", run)}
	for _, n := range names {
		w.replicaPod(n)
	}
	for _, n := range names {
		kill, log := w.replica(n, "dryRun: false\n")
		if ownership.Rank("rec-4", n, names) == 0 {
			killFirst = kill
		}
		await(w.t, n+" lists the Nodes", func() bool { return strings.Contains(read(log), "Starting workers") })
	}
	return killFirst
}

// replicaPod creates the pod that the Deployment would create. It stays listed, like the pod of a process that was
// killed.
func (w *recoveryWorld) replicaPod(name string) {
	w.t.Helper()
	yes, no := true, false
	pod := &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name, Namespace: controllerSpace, Labels: map[string]string{"app.kubernetes.io/name": controllerSpace}},
		Spec: core.PodSpec{
			ServiceAccountName: controllerSpace,
			Containers: []core.Container{{Name: "c", Image: "i", SecurityContext: &core.SecurityContext{
				AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes, Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}},
				SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault},
			}}},
		},
	}
	_, err := w.admin.CoreV1().Pods(controllerSpace).Create(w.t.Context(), pod, meta.CreateOptions{})
	w.must(err)
	w.t.Cleanup(func() {
		_ = w.admin.CoreV1().Pods(controllerSpace).Delete(context.Background(), name, meta.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	})
}

// This test measures how long a node waits when the replica that comes first for it is killed: as the node dies, or
// between the barrier and the deletion. It also measures for how long there is no leader by Lease, with client-go's
// defaults.
func TestTakeover(t *testing.T) {
	var early, late, leader []time.Duration
	for run := range takeovers {
		t.Run(fmt.Sprint("replica ", run), func(t *testing.T) {
			w := newRecoveryWorld(t)
			w.kubelets("rec-1", "rec-2", "rec-3")
			w.pod("default", "db-0", nil)
			w.renewed("rec-4", time.Now().Add(-time.Minute))
			w.unknown()
			kill := w.pair(2 * run)
			kill()
			began := time.Now()
			w.tells("rec-1", true)
			w.tells("rec-2", true)
			await(t, "the taint", func() bool { return w.taint() != "" })
			early = append(early, time.Since(began))
		})
		t.Run(fmt.Sprint("between barrier and deletion ", run), func(t *testing.T) {
			w := newRecoveryWorld(t)
			w.kubelets("rec-1", "rec-2", "rec-3")
			w.pod("default", "db-0", nil)
			w.renewed("rec-4", time.Now().Add(-time.Minute))
			w.unknown()
			kill := w.pair(2*run + 1)
			w.tells("rec-1", true)
			w.tells("rec-2", true)
			await(t, "the taint", func() bool { return w.taint() != "" })
			kill()
			began := time.Now()
			w.must(w.admin.CoreV1().Pods("default").Delete(t.Context(), "db-0", meta.DeleteOptions{}))
			await(t, "the pod is gone", func() bool { return !w.there("default", "db-0") })
			late = append(late, time.Since(began))
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
	for what, list := range map[string][]time.Duration{
		"killed as the node dies: from the second agent's report to the taint": early,
		"killed after the barrier: to the end of the pod":                      late,
		"a leader by Lease, killed: to the next leader":                        leader,
	} {
		if len(list) != takeovers {
			t.Fatalf("%s: %d of %d were measured", what, len(list), takeovers)
		}
		slices.Sort(list)
		round := func(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
		t.Logf("%s: median %v, least %v, most %v", what, round(list[takeovers/2]), round(list[0]), round(list[takeovers-1]))
	}
	// Another replica also watches the Lease, after its pause: for a quarter of 40 s, 4 % of that, and 1 s.
	const watch = 11400 * time.Millisecond
	if early[takeovers/2] > watch+6*time.Second || late[takeovers/2] > 6*time.Second {
		t.Errorf("another replica takes longer than its pause, its watch of the Lease and a moment: %v, %v", early, late)
	}
}

// missedLeader returns how long there is no leader after one was killed, with client-go's defaults.
func missedLeader(t *testing.T) time.Duration {
	p := plane(t)
	name := fmt.Sprintf("leader-%d", time.Now().UnixNano())
	leads := make(chan string, 2)
	elect := func(id string) (kill func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		k := client(t, p.Admin())
		e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta: meta.ObjectMeta{Name: name, Namespace: "default"}, Client: k.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: id},
			},
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) { leads <- id; <-ctx.Done() },
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		go func() { defer close(done); e.Run(ctx) }()
		stop := func() { cancel(); <-done }
		t.Cleanup(stop)
		return stop
	}
	next := func() string {
		select {
		case id := <-leads:
			return id
		case <-time.After(time.Minute):
			t.Fatal("no leader within a minute")
			return ""
		}
	}
	kill := elect("first")
	next()
	elect("second")
	// This moment is somewhere between two renewals, like a crash.
	pause := time.NewTimer(time.Duration(2000+time.Now().UnixNano()%2000) * time.Millisecond)
	<-pause.C
	kill()
	began := time.Now()
	if id := next(); id != "second" {
		t.Fatalf("%s leads", id)
	}
	return time.Since(began)
}
