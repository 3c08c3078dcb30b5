package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

// kubernetesScenarios test what the controller's rules rely on: how kubelets and kube-controller-manager behave when a
// node dies and comes back. This cluster runs neither agents nor the controller. The first scenario is the barrier.
var kubernetesScenarios = []struct {
	name string
	do   func(t *testing.T, k *kubernetes)
}{
	{"barrier", barrier},
	{"barrier_with_refused_status", barrierWithRefusedStatus},
	{"signs_of_a_boot", signsOfABoot},
	{"signs_with_refused_status", signsWithRefusedStatus},
	{"deleted_behind_the_barrier", deletedBehindTheBarrier},
	{"taint_evicted_deleted", taintEvictedDeleted},
	{"unknown_taint_evicted_deleted", unknownTaintEvictedDeleted},
	{"taint_alone", taintAlone},
	{"unknown_and_taint", unknownAndTaint},
	{"not_ready_then_taint", notReadyThenTaint},
	{"taint_deleted_before_its_eviction", deletedBeforeItsEviction},
	{"deleted_then_taint", deletedThenTaint},
	{"deleted_without_taint", deletedWithoutTaint},
}

// kubernetes is a cluster without agents and controller. It runs the StatefulSet of one pod and its volume, and on each
// node a pod that tolerates all taints.
type kubernetes struct {
	*recovery
	lost time.Time // when the node of the scenario lost its power
}

func TestKubernetes(t *testing.T) {
	var k *kubernetes
	for _, s := range kubernetesScenarios {
		t.Run(s.name, func(t *testing.T) {
			if k == nil {
				k = startKubernetes(t)
			}
			defer func() {
				if t.Failed() && k != nil { // its fault may still be there
					do(t, k.Close())
					k = nil
				}
			}()
			began := time.Now()
			s.do(t, k)
			t.Logf("%s: %.1f s", s.name, time.Since(began).Seconds())
		})
	}
	if k != nil {
		do(t, k.Close())
	}
}

// unlessFailed ends the cluster of a scenario that has failed, because its fault may still be there.
func (r *recovery) unlessFailed(t *testing.T) *recovery {
	if !t.Failed() || r == nil {
		return r
	}
	do(t, r.Close())
	return nil
}

const tolerant = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: tolerant, namespace: default}
spec:
  selector: {matchLabels: {app: tolerant}}
  template:
    metadata: {labels: {app: tolerant}}
    spec:
      hostNetwork: true
      terminationGracePeriodSeconds: 1
      tolerations: [{operator: Exists}]
      containers:
      - {name: work, image: "localhost/tool:1", imagePullPolicy: IfNotPresent, args: [work]}
`

func startKubernetes(t *testing.T) *kubernetes {
	t.Helper()
	c := guarded(t, 3)
	if err := errors.Join(c.AddVolume(t.Context(), volumeName, "default", "data-db-0"), c.Apply(t.Context(), database), c.Apply(t.Context(), tolerant)); err != nil {
		t.Fatal(errors.Join(err, c.Close()))
	}
	k := &kubernetes{recovery: &recovery{c, newChecker(c.Volume(volumeName), func() string { return c.Storage().Node(volumeName) })}}
	go k.k.watch(context.Background()) // until the program ends
	return k
}

// lose waits until all is well and then cuts the power of the node that runs the pod. It returns the Node and the pod
// in their former state.
func (k *kubernetes) lose(t *testing.T) (*core.Node, *core.Pod, *recorder) {
	t.Helper()
	await(t, k.Cluster, "the pods run, and all nodes are Ready", databaseRuns, cluster.NodesReady(k.Names()...), func(v *cluster.View) string {
		for _, name := range k.Names() {
			if p := tolerantOn(v, name); !cluster.Ready(p) {
				return "the tolerant pod does not run on " + name
			}
			if tainted(v.Nodes[name]) {
				return name + " is tainted"
			}
		}
		return ""
	})
	v := look(t, k.Cluster)
	p := v.Pod("default", "db-0")
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	rec, err := record(ctx, k.Cluster, p.Spec.NodeName, string(p.UID))
	do(t, err)
	do(t, k.PowerOff(p.Spec.NodeName))
	k.lost = time.Now()
	return v.Nodes[p.Spec.NodeName], p, rec
}

func tolerantOn(v *cluster.View, node string) *core.Pod {
	for _, p := range v.Pods {
		if p.Labels["app"] == "tolerant" && p.Spec.NodeName == node && p.DeletionTimestamp == nil {
			return p
		}
	}
	return nil
}

// settle ends the scenario: all nodes have power and no taint, everything is as at the beginning, and no rule was
// violated meanwhile.
func (k *kubernetes) settle(t *testing.T, rec *recorder) {
	t.Helper()
	do(t, k.Plane.FreeManager())
	for _, name := range k.Names() {
		if _, err := k.Run(t.Context(), name, "/bin/true"); err != nil {
			do(t, k.Boot(t.Context(), name))
		}
	}
	// The taint is removed when the old pod is gone, as the controller does it.
	await(t, k.Cluster, "the nodes are back, and rid of the old pod", cluster.NodesReady(k.Names()...), func(v *cluster.View) string {
		if p := v.Pod("default", "db-0"); p != nil && (p.DeletionTimestamp != nil || p.Status.Phase == core.PodFailed) {
			return "db-0 is being deleted"
		}
		return ""
	})
	for name, n := range look(t, k.Cluster).Nodes {
		if tainted(n) {
			kubectl(t, k.Cluster, "taint", "node", name, outOfService+"-")
		}
	}
	await(t, k.Cluster, "the pod runs", databaseRuns)
	k.judge(t, rec)
}

func (k *kubernetes) taint(t *testing.T, node string) {
	t.Helper()
	kubectl(t, k.Cluster, "taint", "node", node, outOfService+"=nodeshutdown:NoExecute")
}

// unknown does what kube-controller-manager does to a Node from which it has not heard for a long time.
func (k *kubernetes) unknown(t *testing.T, node string) {
	t.Helper()
	patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}`)
	_, err := k.Client.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, patch, meta.PatchOptions{}, "status")
	do(t, err)
}

// force deletes a pod without grace, by its UID.
func (k *kubernetes) force(t *testing.T, p *core.Pod) {
	t.Helper()
	err := k.Client.CoreV1().Pods(p.Namespace).Delete(t.Context(), p.Name, meta.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: &meta.Preconditions{UID: &p.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// ranAgain reports whether the pod has run after its node had lost its power.
func (k *kubernetes) ranAgain(t *testing.T, uid types.UID) (stint, bool) {
	t.Helper()
	all, err := k.k.stints()
	do(t, err)
	i := slices.IndexFunc(all, func(s stint) bool { return s.uid == string(uid) && s.first.After(k.lost) })
	if i < 0 {
		return stint{}, false
	}
	return all[i], true
}

// rejected boots the node, and waits until its kubelet has rejected the pod while its other pods run again. Only the
// taint may be the reason: nobody has evicted the pod.
func (k *kubernetes) rejected(t *testing.T, node string, p *core.Pod) {
	t.Helper()
	booted := time.Now()
	do(t, k.Boot(t.Context(), node))
	await(t, k.Cluster, "the kubelet has rejected the pod, and started the one that tolerates the taint", func(v *cluster.View) string {
		now, other := v.Pod("default", "db-0"), tolerantOn(v, node)
		switch {
		case now == nil || now.UID != p.UID || now.DeletionTimestamp != nil:
			return fmt.Sprintf("somebody has evicted or deleted it: %v", now)
		case other == nil || len(other.Status.ContainerStatuses) != 1 || other.Status.ContainerStatuses[0].State.Running == nil ||
			!other.Status.ContainerStatuses[0].State.Running.StartedAt.After(booted.Add(-time.Second)):
			return "the other pod does not run yet"
		case now.Status.Phase != core.PodFailed:
			if s, ok := k.ranAgain(t, p.UID); ok {
				t.Fatalf("THERE IS NO BARRIER: the kubelet has started the pod again, on a Node with the taint: %+v", s)
			}
			return "it is not rejected: " + string(now.Status.Phase)
		}
		t.Logf("rejected: reason %s, %s", now.Status.Reason, now.Status.Message)
		return ""
	})
	if s, ok := k.ranAgain(t, p.UID); ok {
		t.Errorf("THERE IS NO BARRIER: the kubelet has started the pod again, on a Node with the taint: %+v", s)
	}
}

// Guard: the controller's safety relies on this (docs/adr/0028): a kubelet that starts on a Node with the taint starts
// none of the pods that were bound to it before, although nobody has evicted them. With a version of Kubernetes that
// starts them there is no barrier, and it must not be used with the controller.
func barrier(t *testing.T, k *kubernetes) {
	n, p, rec := k.lose(t)
	do(t, k.Plane.HoldManager())
	k.taint(t, n.Name)
	k.rejected(t, n.Name, p)
	k.settle(t, rec)
}

// Guard: the same holds if the kubelet may not write its Node's status, so that the Node keeps the old boot.
func barrierWithRefusedStatus(t *testing.T, k *kubernetes) {
	n, p, rec := k.lose(t)
	do(t, k.Plane.HoldManager())
	k.refuseStatus(t, n.Name)
	k.taint(t, n.Name)
	k.rejected(t, n.Name, p)
	if boot := look(t, k.Cluster).Nodes[n.Name].Status.NodeInfo.BootID; boot != n.Status.NodeInfo.BootID {
		t.Errorf("the Node shows the boot %s: its status was not refused", boot)
	}
	k.allowStatus(t)
	k.settle(t, rec)
}

const refuse = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: refuse-status}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: [UPDATE], resources: [nodes/status]}]
  matchConditions: [{name: its-kubelet, expression: "request.userInfo.username == 'system:node:%s'"}]
  validations: [{expression: "false", message: refused by the test}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: refuse-status}
spec: {policyName: refuse-status, validationActions: [Deny]}
`

// refuseStatus refuses each write of a kubelet to its Node's status. It returns when the policy is in force. It checks
// that the policy itself refuses such a write, and not another missing right: kubectl first reads the status, which no
// kubelet may do.
func (k *kubernetes) refuseStatus(t *testing.T, node string) {
	t.Helper()
	apply(t, k.Cluster, fmt.Sprintf(refuse, node))
	as := rest.CopyConfig(k.Plane.Admin())
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + node, Groups: []string{"system:nodes"}}
	kubelet, err := client.NewForConfig(as)
	do(t, err)
	until(t, "the status is refused", limit, func() bool {
		_, err := kubelet.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, []byte(`{"status":{"phase":"Running"}}`),
			meta.PatchOptions{DryRun: []string{meta.DryRunAll}}, "status")
		return err != nil && strings.Contains(err.Error(), "refused by the test")
	})
}

func (k *kubernetes) allowStatus(t *testing.T) {
	t.Helper()
	kubectl(t, k.Cluster, "delete", "validatingadmissionpolicybindings/refuse-status", "validatingadmissionpolicies/refuse-status")
}

// Guard: a new boot becomes visible before it starts a pod, in the Node's Lease, in its bootID, and in the pod's own
// status. A barrier or a deletion that comes too late is therefore refused, or not sent.
func signsOfABoot(t *testing.T, k *kubernetes) { k.signs(t, false) }

// Guard: if the kubelet may not write its Node's status, the Node keeps the old boot, and the pods still run. The Lease
// and the pod's status must reveal the new boot.
func signsWithRefusedStatus(t *testing.T, k *kubernetes) { k.signs(t, true) }

func (k *kubernetes) signs(t *testing.T, refused bool) {
	n, p, rec := k.lose(t)
	do(t, k.Plane.HoldManager())
	if refused {
		k.refuseStatus(t, n.Name)
	}
	n, err := k.Client.CoreV1().Nodes().Get(t.Context(), n.Name, meta.GetOptions{})
	do(t, err)
	p, err = k.Client.CoreV1().Pods("default").Get(t.Context(), p.Name, meta.GetOptions{})
	do(t, err)
	lease, err := k.Client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), n.Name, meta.GetOptions{})
	do(t, err)
	seen := k.firstWrites(t, n, p, lease)
	do(t, k.Boot(t.Context(), n.Name))
	var again stint
	until(t, "the pod runs again in the new boot", limit, func() (ok bool) { again, ok = k.ranAgain(t, p.UID); return ok })
	for _, sign := range []string{"Lease", "Node", "pod"} {
		at := seen(sign)
		switch {
		case sign == "Node" && refused:
			if !at.IsZero() {
				t.Errorf("the Node was written, though that is refused")
			}
		case at.IsZero() || at.After(again.first):
			t.Errorf("the first container ran before the API server had shown the new boot: the %s was written at %v, it ran at %v", sign, at, again.first)
		default:
			t.Logf("the %s was written %.2f s before the first container ran", sign, again.first.Sub(at).Seconds())
		}
	}
	late := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"taints":[{"key":%q,"effect":"NoExecute"}]}}`, n.UID, n.ResourceVersion, outOfService)
	if _, err := k.Client.CoreV1().Nodes().Patch(t.Context(), n.Name, types.StrategicMergePatchType, []byte(late), meta.PatchOptions{}); !refused && !apierrors.IsConflict(err) {
		t.Errorf("a barrier after the boot: %v, want a conflict", err)
	}
	err = k.Client.CoreV1().Pods("default").Delete(t.Context(), p.Name, meta.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: &meta.Preconditions{UID: &p.UID, ResourceVersion: &p.ResourceVersion},
	})
	if !apierrors.IsConflict(err) {
		t.Errorf("a deletion after the boot: %v, want a conflict", err)
	}
	if refused {
		k.allowStatus(t)
	}
	k.settle(t, rec)
}

// firstWrites records when a Node's bootID and Ready, its Lease and its pod were first seen to differ from these.
func (k *kubernetes) firstWrites(t *testing.T, n *core.Node, p *core.Pod, l *coordination.Lease) func(sign string) time.Time {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	one := func(name, version string) meta.ListOptions {
		return meta.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: version}
	}
	nodes, err := k.Client.CoreV1().Nodes().Watch(ctx, one(n.Name, n.ResourceVersion))
	do(t, err)
	pods, err := k.Client.CoreV1().Pods(p.Namespace).Watch(ctx, one(p.Name, p.ResourceVersion))
	do(t, err)
	leases, err := k.Client.CoordinationV1().Leases(l.Namespace).Watch(ctx, one(l.Name, l.ResourceVersion))
	do(t, err)
	seen := &recorder{at: map[string]time.Time{}}
	first := func(sign string) {
		if seen.when(sign).IsZero() {
			seen.note(sign, time.Now())
		}
	}
	follow := func(w watch.Interface, take func(o runtime.Object)) {
		context.AfterFunc(ctx, w.Stop)
		go func() {
			for e := range w.ResultChan() {
				take(e.Object)
			}
		}()
	}
	follow(nodes, func(o runtime.Object) {
		now, ok := o.(*core.Node)
		if !ok || now.Status.NodeInfo.BootID == n.Status.NodeInfo.BootID {
			return
		}
		if seen.when("Node").IsZero() && !nodeIsReady(now) {
			t.Errorf("the new boot's first patch does not say Ready: %+v", now.Status.Conditions)
		}
		first("Node")
	})
	follow(pods, func(o runtime.Object) {
		if _, ok := o.(*core.Pod); ok {
			first("pod")
		}
	})
	follow(leases, func(o runtime.Object) {
		if _, ok := o.(*coordination.Lease); ok {
			first("Lease")
		}
	})
	return seen.when
}

// Guard: a deletion in the middle of the new boot, 2 s or more after power-on, does no harm if the taint was set
// before.
func deletedBehindTheBarrier(t *testing.T, k *kubernetes) {
	n, p, rec := k.lose(t)
	k.taint(t, n.Name)
	until(t, "the pod is evicted", limit, func() bool { return !rec.when("evicted").IsZero() })
	do(t, k.Boot(t.Context(), n.Name))
	<-time.After(2500 * time.Millisecond)
	k.force(t, p)
	until(t, "the replacement writes", limit, func() bool { uid, _ := rec.replacement(); _, ok := k.wrote(t, uid); return ok })
	if s, ok := k.ranAgain(t, p.UID); ok {
		t.Errorf("the old pod was started again: %+v", s)
	}
	k.settle(t, rec)
}
