package cluster_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

var (
	recoveries = flag.Int("recoveries", 1, "number of runs of the scenario recovery, for a table")
	calm       = flag.Bool("calm", false, "use Kubernetes' default times: a Lease of 40 s, NotReady after 50 s")
	byWhom     = flag.String("by", "controller", "who recovers in the scenario recovery: controller, person or nobody")
)

// recoveryScenarios need a separate cluster, whose nodes have watchdogs that reset them.
var recoveryScenarios = []struct {
	name string
	do   func(t *testing.T, r *recovery)
	// blind is set if the checker need not see processes and writers.
	blind bool
}{
	{"recovery", recovered, false},
	{"crash", crashed, true},
	{"cut_off_and_back", cutOffAndBack, false},
	{"back_before_the_proof", backBeforeTheProof, false},
	{"boots_with_the_taint", bootsWithTheTaint, false},
	{"back_in_the_middle", backInTheMiddle, false},
}

// recovery is a cluster with the controller, and a StatefulSet of one pod with a volume.
type recovery struct {
	*cluster.Cluster
	k *checker
}

func TestRecovery(t *testing.T) {
	var r *recovery
	for _, s := range recoveryScenarios {
		t.Run(s.name, func(t *testing.T) {
			if !s.blind {
				needsProcesses(t)
			}
			if r == nil {
				r = startRecovery(t)
			}
			defer func() { r = r.unlessFailed(t) }()
			began := time.Now()
			s.do(t, r)
			t.Logf("%s: %.1f s", s.name, time.Since(began).Seconds())
		})
	}
	if r != nil {
		do(t, r.Close())
	}
}

const database = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default}
spec:
  serviceName: db
  replicas: 1
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 10
      containers:
      - name: db
        image: localhost/tool:1
        imagePullPolicy: IfNotPresent
        args: [stubborn, /data]
        env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
        - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: "", resources: {requests: {storage: 1Gi}}}
`

const volumeName = "db-0"

func startRecovery(t *testing.T) *recovery {
	t.Helper()
	c := guardedAny(t, 4)
	err := errors.Join(c.Install(t.Context()), c.InstallController(t.Context(), cluster.ControllerManifestIn(root)), c.AddVolume(t.Context(), volumeName, "default", "data-db-0"),
		c.Apply(t.Context(), database))
	if err != nil {
		t.Fatal(errors.Join(err, c.Close()))
	}
	k := newChecker(c.Volume(volumeName), func() string { return c.Storage().Node(volumeName) })
	if k.blind = c.OwnKernels(); !k.blind {
		go k.watch(context.Background()) // until the program ends
	}
	await(t, c, "the pod runs, with its volume", databaseRuns)
	return &recovery{Cluster: c, k: k}
}

// needsProcesses skips a test in which the checker must see the processes of the nodes, if they are hidden.
func needsProcesses(t *testing.T) {
	t.Helper()
	if inside == nil {
		return // guardedAny skips
	}
	programs, err := cluster.ProgramsIn(root)
	do(t, err)
	if kind(t, programs).OwnKernel() {
		t.Skip("the checker reads the processes of the nodes, and nodes with their own kernel hide them: run it without KIND")
	}
}

// guarded returns a cluster for the checker, in which nothing is installed.
func guarded(t *testing.T, nodes int) *cluster.Cluster {
	t.Helper()
	needsProcesses(t)
	return guardedAny(t, nodes)
}

// guardedAny returns a cluster of any kind of nodes, which have volumes and a watchdog.
func guardedAny(t *testing.T, nodes int) *cluster.Cluster {
	t.Helper()
	if inside == nil {
		t.Skipf("set %s=1 as root to run a recovery in a real cluster (make test-cluster)", enableEnv)
	}
	if shared != nil { // the cluster of the other scenarios
		do(t, shared.Close())
		shared = nil
	}
	programs, err := cluster.ProgramsIn(root)
	do(t, err)
	c, err := cluster.Start(t.Context(), cluster.Config{
		Nodes: nodes, Programs: programs, Room: inside, Kind: kind(t, programs), Manifest: cluster.ManifestIn(root), Guarded: true, Calm: *calm, Say: t.Logf,
	})
	do(t, err)
	return c
}

func databaseRuns(v *cluster.View) string {
	if p := v.Pod("default", "db-0"); !cluster.Ready(p) || p.DeletionTimestamp != nil {
		return "db-0 is not Ready"
	}
	return ""
}

// start waits for the state before a fault. It returns the node with the pod, and a recorder that watches it.
func (r *recovery) start(t *testing.T) (node string, rec *recorder) {
	t.Helper()
	await(t, r.Cluster, "the pod runs, and all nodes are Ready and guarded", databaseRuns, cluster.NodesReady(r.Names()...), armed(r.Names()))
	p := look(t, r.Cluster).Pod("default", "db-0")
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	rec, err := record(ctx, r.Cluster, p.Spec.NodeName, string(p.UID))
	do(t, err)
	return p.Spec.NodeName, rec
}

// armed holds when each agent knows that the watchdogs of all others are armed. Until then, for example after its boot,
// a node is never taken for dead by time or by its own sentence.
func armed(nodes []string) cluster.Condition {
	return func(v *cluster.View) string {
		for _, by := range nodes {
			for _, of := range nodes {
				if by != of && !v.State(by, of).GetWatchdogArmed() {
					return fmt.Sprintf("%s does not know that %s is guarded", by, of)
				}
			}
		}
		return ""
	}
}

// judge logs the checker's verdict on all that has happened.
func (r *recovery) judge(t *testing.T, rec *recorder) {
	t.Helper()
	broken := r.k.verdict(r.Storage().Changes())
	rec.mu.Lock()
	broken = append(broken, rec.broken...)
	rec.mu.Unlock()
	for _, b := range broken {
		t.Error("BROKEN: " + b)
	}
}

// until waits for a condition that is cheap to check.
func until(t *testing.T, what string, within time.Duration, done func() bool) {
	t.Helper()
	end := time.Now().Add(within)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
		<-tick.C
	}
}

// wrote returns when a pod first wrote to the volume.
func (r *recovery) wrote(t *testing.T, uid string) (stint, bool) {
	t.Helper()
	all, err := r.k.stints()
	do(t, err)
	i := slices.IndexFunc(all, func(s stint) bool { return uid != "" && s.uid == uid })
	if i < 0 {
		return stint{}, false
	}
	return all[i], true
}

// whole waits until everything is as at the beginning and the taint is gone.
func (r *recovery) whole(t *testing.T) {
	t.Helper()
	began := time.Now()
	do(t, r.Settle(t.Context(), limit))
	await(t, r.Cluster, "no taint is left, the pod and the controller run", databaseRuns, func(v *cluster.View) string {
		for name, n := range v.Nodes {
			if tainted(n) {
				return name + " carries the taint"
			}
		}
		ready := 0
		for _, p := range v.Pods {
			if p.Namespace == cluster.ControllerSpace && cluster.Ready(p) && p.DeletionTimestamp == nil {
				ready++
			}
		}
		if ready != 2 {
			return fmt.Sprintf("%d replicas of the controller are Ready", ready)
		}
		return ""
	})
	t.Logf("everything is as at the beginning after %.1f s", time.Since(began).Seconds())
}

// inOrder fails the test unless the death was proven, and acted on, after the watchdog had ended the boot. A report of
// one agent before that is only logged: it has no effect while Ready is not Unknown, and otherwise the taint reveals
// the effect.
func (r *recovery) inOrder(t *testing.T, rec *recorder) {
	t.Helper()
	reset, first := rec.when("reset"), rec.when("fenced by 1")
	if reset.IsZero() {
		return
	}
	if !first.IsZero() && first.Before(reset) {
		t.Logf("the first agent said FENCED %v before the node was reset", reset.Sub(first))
	}
	for _, step := range []string{"fenced by 2", "tainted"} {
		if at := rec.when(step); !at.IsZero() && at.Before(reset) {
			t.Errorf("BROKEN: %s came %v before the node was reset", step, reset.Sub(at))
		}
	}
}

// elsewhere waits until the replacement runs, and reports whether it does: it must write or, if the checker cannot see
// writers, be Ready.
func (r *recovery) elsewhere(t *testing.T, rec *recorder) bool {
	t.Helper()
	patience := limit
	if *byWhom == "nobody" {
		patience = 8 * time.Minute
	}
	end := time.Now().Add(patience)
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		uid, _ := rec.replacement()
		s, ok := r.wrote(t, uid)
		if ok && s.lines > 20 {
			rec.note("running", s.first)
			return true
		}
		if r.k.blind && !rec.when("ready").IsZero() {
			return true
		}
		if time.Now().After(end) {
			if *byWhom == "nobody" {
				t.Logf("nobody has done anything for %v, and the pod runs nowhere", patience)
				return false
			}
			t.Errorf("the pod runs nowhere else after %v; the controller says\n%s", patience, r.says(t))
			return false
		}
	}
}

// says returns what the replicas of the controller have logged.
func (r *recovery) says(t *testing.T) string {
	out, err := r.Plane.Kubectl(context.Background(), "", "-n", cluster.ControllerSpace, "logs", "-l", "app.kubernetes.io/name=fencing-controller", "--prefix", "--tail=30")
	if err != nil {
		return err.Error()
	}
	return out
}

// Guard: a node whose kubelet does not reach the API server, but whose agent is seen by the others, is not dead: nobody
// touches its pods.
func cutOffAndBack(t *testing.T, r *recovery) {
	node, rec := r.start(t)
	do(t, r.Cut(node, "mgmt"))
	await(t, r.Cluster, "Kubernetes takes the node for NotReady", cluster.NodeNotReady(node))
	seen := 0
	hold(t, r.Cluster, "nobody taints it, and its pod is left alone", 10*time.Second, func(v *cluster.View) string {
		if v.APIErr != nil {
			return "" // the state is unknown
		}
		seen++
		p := v.Pod("default", "db-0")
		if p == nil || string(p.UID) != rec.uid || p.DeletionTimestamp != nil || tainted(v.Nodes[node]) {
			return fmt.Sprintf("db-0 is %v", p)
		}
		return ""
	})
	if seen == 0 {
		t.Error("the API server has not answered meanwhile")
	}
	do(t, r.Heal(node))
	r.whole(t)
	if all, _ := r.k.stints(); all[len(all)-1].uid != rec.uid {
		t.Errorf("another pod runs: %+v", all)
	}
	r.judge(t, rec)
}

// Guard: a node that has lost its power and is back at once has another boot than the one that the agents call dead.
// Its kubelet starts the same pod again, and the controller does nothing.
func backBeforeTheProof(t *testing.T, r *recovery) {
	node, rec := r.start(t)
	do(t, r.Reset(t.Context(), node))
	until(t, "the same pod runs again in the new boot", limit, func() bool {
		all, err := r.k.stints()
		do(t, err)
		last := all[len(all)-1]
		n := 0
		for _, s := range all {
			if s.uid == rec.uid {
				n++
			}
		}
		return last.uid == rec.uid && n > 1
	})
	r.whole(t)
	hold(t, r.Cluster, "its agent has reported the new boot, and nothing follows", 10*time.Second, databaseRuns)
	if at := rec.when("tainted"); !at.IsZero() {
		t.Errorf("the Node was tainted at %v, for a boot that it does not contain", at)
	}
	if uid, _ := rec.replacement(); uid != "" {
		t.Errorf("the pod was replaced")
	}
	r.judge(t, rec)
}

// Guard: the controller's safety relies on this: a kubelet that starts on a Node with the taint starts none of the pods
// that were bound to it before. With a version of Kubernetes that starts them there is no barrier (docs/adr/0028), and
// it must not be used with the controller.
func bootsWithTheTaint(t *testing.T, r *recovery) {
	node, rec := r.start(t)
	kubectl(t, r.Cluster, "-n", cluster.ControllerSpace, "scale", "deployment/fencing-controller", "--replicas=0")
	await(t, r.Cluster, "no controller runs", func(v *cluster.View) string {
		for _, p := range v.Pods {
			if p.Namespace == cluster.ControllerSpace {
				return p.Name + " is there"
			}
		}
		return ""
	})
	do(t, r.PowerOff(node))
	before, err := r.k.stints()
	do(t, err)
	kubectl(t, r.Cluster, "taint", "node", node, outOfService+"=nodeshutdown:NoExecute")
	do(t, r.Boot(t.Context(), node))
	until(t, "Kubernetes has replaced the pod by itself", limit, func() bool {
		uid, _ := rec.replacement()
		_, ok := r.wrote(t, uid)
		return ok
	})
	after, err := r.k.stints()
	do(t, err)
	for _, s := range after[len(before):] {
		if s.uid == rec.uid {
			t.Errorf("the kubelet has started the pod again, on a Node with the taint: %+v", s)
		}
	}
	r.judge(t, rec)
	kubectl(t, r.Cluster, "taint", "node", node, outOfService+"-")
	kubectl(t, r.Cluster, "-n", cluster.ControllerSpace, "scale", "deployment/fencing-controller", "--replicas=2")
	r.whole(t)
	r.judge(t, rec)
}

// Guard: if a node comes back at any moment between the barrier and the deletion, its pod still runs only once.
func backInTheMiddle(t *testing.T, r *recovery) {
	for _, after := range []time.Duration{0, 300 * time.Millisecond, 600 * time.Millisecond} {
		node, rec := r.start(t)
		resets := len(r.Resets(node))
		do(t, r.Cut(node))
		until(t, "the watchdog resets the node", limit, func() bool { return len(r.Resets(node)) > resets })
		until(t, "the barrier is set", limit, func() bool { return !rec.when("tainted").IsZero() })
		<-time.After(time.Until(rec.when("tainted").Add(after)))
		do(t, r.Heal(node))
		do(t, r.Boot(t.Context(), node))
		until(t, "the pod runs again", limit, func() bool {
			uid, _ := rec.replacement()
			s, ok := r.wrote(t, uid)
			return ok && s.lines > 20
		})
		_, onto := rec.replacement()
		t.Logf("booted %v after the taint: gone %.2f s after the taint, runs on %s after %.2f s", after, rec.when("gone").Sub(rec.when("tainted")).Seconds(), onto, time.Since(rec.when("tainted")).Seconds())
		r.whole(t)
		r.judge(t, rec)
	}
}
