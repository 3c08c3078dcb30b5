package kube

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A new user follows docs/controller.md: applies the manifest, kills a node, reads with kubectl what would have been
// done, lets the controller act, reads what was done and why, and ends a dispute with the commands of the page. The
// replica is a process beside the cluster, because there is no kubelet.
func TestCommandsOfTheControllersPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/controller.md")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := kubetest()
	if err != nil {
		t.Fatal(err)
	}
	w := newRecoveryWorld(t)
	r := newReader(t, w.plane, binary)
	written := commands(string(page))
	types := func(command string) string {
		t.Helper()
		if !slices.Contains(written, command) {
			t.Fatalf("docs/controller.md does not have this command any more: %s\n%q", command, written)
		}
		out, err := r.types(t.Context(), strings.NewReplacer("NODE", "rec-4", "node-4", "rec-4").Replace(command))
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return out
	}
	shows := func(command string, words ...string) {
		t.Helper()
		await(t, command+" shows "+strings.Join(words, ", "), func() bool {
			out, err := r.types(t.Context(), command)
			if err != nil {
				t.Fatalf("%s: %v\n%s", command, err, out)
			}
			return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(out, word) })
		})
	}
	if out := types("kubectl apply --server-side -f deploy/controller/controller.yaml"); !strings.Contains(out, "deployment.apps/fencing-controller") {
		t.Errorf("apply: %s", out)
	}

	// A node dies.
	w.kubelets("rec-1", "rec-2", "rec-3")
	w.pod("default", "db-0", nil)
	w.renewed("rec-4", time.Now().Add(-time.Minute))
	w.unknown()
	// It uses the manifest's setting, dryRun.
	kill, _ := w.replica("page-dry", "replicas: {pause: 0s}\n")
	w.tells("rec-1", true)
	w.tells("rec-2", true)
	events := "kubectl get events --field-selector involvedObject.name=node-4"
	shows(strings.Replace(events, "node-4", "rec-4", 1), "DryRun", "would set", "named by rec-1")
	types(events)
	kill()
	if w.taint() != "" {
		t.Fatal("dryRun has set the taint")
	}

	// From here on the controller acts.
	_, log := w.replica("page", "dryRun: false\nreplicas: {pause: 0s}\n")
	await(t, "the taint", func() bool { return w.taint() != "" })
	w.must(w.admin.CoreV1().Pods("default").Delete(t.Context(), "db-0", meta.DeleteOptions{}))
	await(t, "the pod is gone", func() bool { return !w.there("default", "db-0") })
	shows("kubectl describe node rec-4", "BarrierSet", "PodDeleted", "deleted default/db-0: the boot of rec-4 that ran it has ended", "NodeReleased", "out-of-service=fenced-"+deadBoot)
	shows("fencectl explain rec-4", "fenced-"+deadBoot, "by rec-1", "by rec-2", "NodeReleased")

	// The death was wrong: the kubelet is heard, and the agents withdraw it.
	w.renewed("rec-4", time.Now())
	await(t, "the taint says so", func() bool { return w.taint() == "disputed-"+deadBoot })
	shows("kubectl describe node rec-4", "DeathDisputed", "fencing-agent.io/disputed: "+deadBoot)
	shows("fencectl explain rec-4", "dispute", "was heard after that")
	w.tells("rec-1", false)
	w.tells("rec-2", false)
	types("kubectl taint node NODE node.kubernetes.io/out-of-service-")
	types("kubectl annotate node NODE fencing-agent.io/disputed-")
	await(t, "the replica has nothing to do", func() bool { return strings.Contains(read(log), `"phase":"watching"`) })
	n, err := w.admin.CoreV1().Nodes().Get(t.Context(), "rec-4", meta.GetOptions{})
	w.must(err)
	if n.Annotations["fencing-agent.io/disputed"] != "" || slices.ContainsFunc(n.Spec.Taints, func(x core.Taint) bool { return x.Key == outOfService }) {
		t.Errorf("left: %v, %v", n.Annotations, n.Spec.Taints)
	}
}
