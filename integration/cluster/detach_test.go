package cluster_test

import (
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

// These scenarios try what kube-controller-manager does with the pod and the volume of a node that is off, for each
// order of the possible steps. The node always has no power, so that a wrong order costs only time. Here PodGC checks
// every 20 s, and a node is NotReady after 10 s.
const (
	podGC   = 20 * time.Second
	atOnce  = 15 * time.Second // under any load
	grace   = 10 * time.Second
	stagger = 15 * time.Second
)

// moved waits until the volume is attached to another node and the replacement writes there.
func (k *kubernetes) moved(t *testing.T, rec *recorder, since time.Time, within time.Duration) {
	t.Helper()
	until(t, "the volume is attached elsewhere", within, func() bool { return !rec.when("attached").IsZero() })
	until(t, "the replacement writes", limit, func() bool { uid, _ := rec.replacement(); _, ok := k.wrote(t, uid); return ok })
	_, onto := rec.replacement()
	evicted := ""
	if !rec.when("replacement evicted").IsZero() {
		evicted = "; a replacement was evicted"
	}
	t.Logf("after the last step: gone %.2f s, detached %.2f s, attached to %s %.2f s, writes %.2f s%s", rec.when("gone").Sub(since).Seconds(),
		rec.when("detached").Sub(since).Seconds(), onto, rec.when("attached").Sub(since).Seconds(), time.Since(since).Seconds(), evicted)
}

// Guard: in the controller's order, the volume is attached elsewhere at once, although the Node is still Ready and
// reports that the volume is in use. Nobody touches the VolumeAttachment.
func taintEvictedDeleted(t *testing.T, k *kubernetes) { k.inOrder3(t, false) }

// This is the same after Ready was set to Unknown, which gains nothing.
func unknownTaintEvictedDeleted(t *testing.T, k *kubernetes) { k.inOrder3(t, true) }

func (k *kubernetes) inOrder3(t *testing.T, unknown bool) {
	n, p, rec := k.lose(t)
	if unknown {
		k.unknown(t, n.Name)
	}
	k.taint(t, n.Name)
	until(t, "the pod is evicted", limit, func() bool { return !rec.when("evicted").IsZero() })
	since := time.Now()
	k.force(t, p)
	k.moved(t, rec, since, atOnce)
	if !rec.when("replacement evicted").IsZero() {
		t.Error("the replacement was evicted: the eviction was waited for")
	}
	k.settle(t, rec)
}

// Guard: the taint alone deletes nothing while the Node is Ready. That is why the controller deletes.
func taintAlone(t *testing.T, k *kubernetes) {
	n, _, rec := k.lose(t)
	since := time.Now()
	k.taint(t, n.Name)
	k.moved(t, rec, since, grace+podGC+stagger)
	if ready := rec.when("not ready"); ready.IsZero() || rec.when("gone").Before(ready) {
		t.Errorf("the pod was gone at %v, before the Node was not Ready (%v): then nobody has to delete it", rec.when("gone"), ready)
	}
	k.settle(t, rec)
}

// Guard: once the Node is not Ready, the taint is enough, within PodGC's 20 s.
func unknownAndTaint(t *testing.T, k *kubernetes) {
	n, _, rec := k.lose(t)
	k.unknown(t, n.Name)
	since := time.Now()
	k.taint(t, n.Name)
	k.moved(t, rec, since, podGC+stagger)
	k.settle(t, rec)
}

// This is the same when a person sets the taint on a Node that Kubernetes calls NotReady.
func notReadyThenTaint(t *testing.T, k *kubernetes) {
	n, _, rec := k.lose(t)
	await(t, k.Cluster, "NotReady", cluster.NodeNotReady(n.Name))
	since := time.Now()
	k.taint(t, n.Name)
	k.moved(t, rec, since, podGC+stagger)
	k.settle(t, rec)
}

// Guard: a pod that is deleted before its eviction is still replaced, but later: the eviction by taint uses the pod's
// name, and may hit the replacement (kubernetes#141568).
func deletedBeforeItsEviction(t *testing.T, k *kubernetes) {
	n, p, rec := k.lose(t)
	since := time.Now()
	patch := []byte(`{"spec":{"taints":[{"key":"` + outOfService + `","value":"nodeshutdown","effect":"NoExecute"}]}}`)
	_, err := k.Client.CoreV1().Nodes().Patch(t.Context(), n.Name, "application/strategic-merge-patch+json", patch, meta.PatchOptions{})
	do(t, err)
	k.force(t, p)
	k.moved(t, rec, since, limit)
	k.settle(t, rec)
}

// Guard: a pod that is deleted before the taint is set may be replaced on the dead node, which Kubernetes still calls
// Ready. That is why the barrier comes first.
func deletedThenTaint(t *testing.T, k *kubernetes) {
	n, p, rec := k.lose(t)
	since := time.Now()
	k.force(t, p)
	k.taint(t, n.Name)
	k.moved(t, rec, since, limit)
	k.settle(t, rec)
}

// Guard: to delete the VolumeAttachment does not help. Without the taint the volume is attached nowhere else, and the
// pod may be replaced on the dead node.
func deletedWithoutTaint(t *testing.T, k *kubernetes) {
	n, p, rec := k.lose(t)
	k.force(t, p)
	kubectl(t, k.Cluster, "delete", "volumeattachments", "--all", "--wait=false")
	since := time.Now()
	end := since.Add(30 * time.Second)
	until(t, "half a minute has passed, or the replacement writes", limit, func() bool {
		uid, _ := rec.replacement()
		_, ok := k.wrote(t, uid)
		return ok || time.Now().After(end)
	})
	uid, onto := rec.replacement()
	_, ran := k.wrote(t, uid)
	t.Logf("the replacement is on %q (the dead node is %s); it has written: %v, %.1f s after the last step", onto, n.Name, ran, time.Since(since).Seconds())
	if v := look(t, k.Cluster); onto == n.Name && ran && !cluster.Ready(v.Pod("default", "db-0")) && v.Nodes[n.Name].Status.Phase == core.NodeRunning {
		t.Error("a pod runs on a node without power")
	}
	k.settle(t, rec)
}
