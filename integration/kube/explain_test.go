package kube

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// throughProxy is a kubectl for a cluster without kubelets: it asks the replica's process for what the API server would
// fetch from the replica's pod.
const throughProxy = `#!/bin/sh
case "$*" in
*"get --raw"*"/pods/explained:9120/proxy/nodes") exec %[1]s --kubeconfig /dev/null --server http://%[2]s get --raw /nodes ;;
esac
exec %[1]s "$@"
`

// explainer is a person who types kubectl fence explain while a node dies and comes back.
type explainer struct {
	*recoveryWorld
	reader  *reader
	kubectl string
}

func newExplainer(t *testing.T) *explainer {
	t.Helper()
	binary, err := kubetest()
	if err != nil {
		t.Fatal(err)
	}
	x := &explainer{recoveryWorld: newRecoveryWorld(t)}
	x.reader = newReader(t, x.plane, binary)
	for _, at := range []*string{&x.pages, &x.page} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		x.must(err)
		*at = l.Addr().String()
		x.must(l.Close())
	}
	x.kubectl = filepath.Join(t.TempDir(), "kubectl")
	x.must(os.WriteFile(x.kubectl, fmt.Appendf(nil, throughProxy, filepath.Join(x.reader.dir, "bin", "kubectl"), x.pages), 0o755))
	// This is the replica's pod, which no kubelet runs.
	d, err := x.admin.AppsV1().Deployments(controllerSpace).Get(t.Context(), controllerSpace, meta.GetOptions{})
	x.must(err)
	_, err = x.admin.CoreV1().Pods(controllerSpace).Create(t.Context(), &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "explained", Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec}, meta.CreateOptions{})
	x.must(err)
	t.Cleanup(func() {
		_ = x.admin.CoreV1().Pods(controllerSpace).Delete(context.Background(), "explained", meta.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
	return x
}

// reads waits until the explanation of a node contains all these words at one moment.
func (x *explainer) reads(node, phase string, words ...string) {
	x.t.Helper()
	x.prints("fencectl explain "+node, phase, words...)
}

// shows waits until the replica's page contains all these words.
func (x *explainer) shows(words ...string) {
	x.t.Helper()
	resp, err := http.Get("http://" + x.page + "/")
	x.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	x.must(err)
	for _, word := range words {
		if !strings.Contains(string(text), word) {
			x.t.Errorf("the page (%d) does not say %q:\n%s", resp.StatusCode, word, text)
		}
	}
}

// prints waits until the output of a command contains all these words at one moment.
func (x *explainer) prints(command, phase string, words ...string) {
	x.t.Helper()
	began, out := time.Now(), ""
	for {
		var err error
		// It is an error if kubectl takes longer than explain waits, on a busy host.
		out, err = x.reader.types(x.t.Context(), command+" --kubectl "+x.kubectl)
		missing := ""
		if err != nil {
			missing = err.Error()
		}
		for _, word := range words {
			if !strings.Contains(out, word) {
				missing = word
			}
		}
		if missing == "" {
			state, _, _ := strings.Cut(out, "\nevent ")
			x.t.Logf("%s, after %.1f s:\n%s", phase, time.Since(began).Seconds(), state)
			return
		}
		// Each call of kubectl takes a moment.
		if time.Since(began) > patience {
			x.t.Fatalf("%s: it does not say %q:\n%s", phase, missing, out)
		}
	}
}

// ready writes the condition Ready of a Node, as the kubelet or kube-controller-manager does.
func (x *explainer) ready(node string, s core.ConditionStatus) {
	x.t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q}]}}`, core.NodeReady, s)
	_, err := x.admin.CoreV1().Nodes().Patch(x.t.Context(), node, types.StrategicMergePatchType, []byte(patch), meta.PatchOptions{}, "status")
	x.must(err)
}

// Guard: at each moment of a recovery kubectl fence explain says what the controller waits for, and why.
func TestExplainEachPhase(t *testing.T) {
	x := newExplainer(t)
	x.kubelets("rec-1", "rec-2", "rec-3")
	db := x.pod("default", "db-0", func(p *core.Pod) { p.Finalizers = []string{"example.com/backup"} })
	x.pod("default", "kept", func(p *core.Pod) {
		p.Labels = map[string]string{"remediation.medik8s.io/exclude-from-remediation": "true"}
	})
	x.replica("explained", "dryRun: false\nreplicas: {pause: 0s}\nevidence: {readyUnknown: false}\n")

	x.ready("rec-4", core.ConditionUnknown)
	x.reads("rec-4", "silent, and nobody has proof", "Ready Unknown", "none: no pod is taken off", "by nobody: nothing is done until agents have proof", "explained: does nothing about it")
	x.ready("rec-4", core.ConditionTrue)
	x.renewed("rec-4", time.Now().Add(-25*time.Second)) // 15 s of it are left
	x.tells("rec-1", true)
	x.reads("rec-4", "one agent has proof", "by rec-1 at", "proof time, this boot", "explained: unproven", "1 of 2 Nodes name this boot (rec-1)")
	x.tells("rec-2", true)
	x.reads("rec-4", "believed", "by rec-2 at", "explained: proven", "waits until the Lease has run out")
	x.ready("rec-4", core.ConditionUnknown)
	x.reads("rec-4", "the barrier is set", "fenced-"+deadBoot+": pods are taken off, and none is started in a new boot", "explained: draining", "1 pods left, 1 of them not evicted yet")
	// This stands for the eviction by taint.
	for _, p := range []string{"db-0", "kept"} {
		x.must(x.admin.CoreV1().Pods("default").Delete(t.Context(), p, meta.DeleteOptions{}))
	}
	x.reads("rec-4", "a finalizer", "explained: draining", "1 pods are held by finalizers")
	_, err := x.admin.CoreV1().Pods("default").Patch(t.Context(), db.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), meta.PatchOptions{})
	x.must(err)
	x.reads("rec-4", "its pods are gone", "explained: released", "except for 1 that are excluded; the taint stays until the node is back in another boot")
	x.shows("<b>rec</b>: ", "1 released", "<b>released</b>", "boot "+deadBoot+", proof time: rec-1 at", "rec-2 at", "explained")
	x.prints("fencectl explain rec-4", "all of it in order", "boot "+deadBoot+" has ended, proof time", "DeathProven", "BarrierSet", "NodeReleased", "Ready", "Unknown")
	x.boots(nextID)
	x.kubelets("rec-4")
	x.reads("rec-4", "back, with an old pod", "an earlier boot; it comes off when the node is Ready and its old pods are gone", "another boot, "+deadBoot, "explained: returning", "1 pods from before are left")
	x.must(x.admin.CoreV1().Pods("default").Delete(t.Context(), "kept", meta.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	x.reads("rec-4", "back", "explained: returning", "it is not Ready yet")
	x.ready("rec-4", core.ConditionTrue)
	x.reads("rec-4", "Ready", "explained: returning", "it is watched for a moment")
	x.tells("rec-1", false)
	x.tells("rec-2", false)
	x.reads("rec-4", "all is well", "Ready True", "none: no pod is taken off", "called dead  by nobody\n", "explained: watching", "nobody calls this boot dead")
}

// Guard: the same for a node that waits for other nodes or for a person.
func TestExplainWhatWaits(t *testing.T) {
	x := newExplainer(t)
	x.node("rec-5")
	x.kubelets("rec-0", "rec-1", "rec-2", "rec-3")
	x.pod("default", "db-0", nil)
	for _, node := range []string{"rec-4", "rec-5"} {
		x.renewed(node, time.Now().Add(-time.Minute))
	}
	kill, _ := x.replica("explained", "dryRun: false\nreplicas: {pause: 0s}\n")
	const both = `[{"node":"rec-4","boot":"024bc581b3a34be3","proof":"time","at":"2026-05-04T12:00:00Z","said":"f24bc581b3a34be3"},{"node":"rec-5","boot":"f24bc581b3a34be3","proof":"time","at":"2026-05-04T12:00:00Z","said":"f24bc581b3a34be3"}]`
	x.must(patchNode(x.admin, "rec-1", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, deathsKey, both)))
	x.tells("rec-2", true)
	x.reads("rec-4", "a Lease that has run out", "explained: proven", "watches whether the Lease is renewed: the kubelet's clock may be behind")
	x.reads("rec-4", "the first", "explained: draining", "1 of them not evicted yet")
	// One reporter is now enough, and the Lease has been watched since its report.
	x.ready("rec-5", core.ConditionUnknown)
	x.reads("rec-5", "the second", "none: no pod is taken off", "explained: proven", "evictions from rec-4 have to end first")
	kill()
	x.reads("rec-4", "no replica answers", "pods are taken off", "explained: no answer")
	kill, _ = x.replica("explained", "dryRun: false\nreplicas: {pause: 0s}\nstorm: {maxDeadPercent: 20}\n")
	x.reads("rec-5", "too many", "explained: proven", "2 of 6 nodes of group rec are dead, more than storm.maxDeadPercent (20) allows: look at the cause, then raise it")
	x.must(patchNode(x.admin, "rec-5", `{"spec":{"taints":[{"key":"`+outOfService+`","value":"nodeshutdown","effect":"NoExecute"}]}}`))
	x.reads("rec-5", "a person", "nodeshutdown: somebody else's, which the controller leaves alone", "explained: foreign", "so this program leaves the Node alone")
	x.renewed("rec-4", time.Now())
	x.reads("rec-4", "it was heard", "dispute", "this boot was called dead, and was heard after that; see the alert FencingControllerDisputed", "disputed-"+deadBoot+": the boot may run", "explained: disputed")
	kill()
	x.replica("explained", "replicas: {pause: 0s}\n")
	x.must(patchNode(x.admin, "rec-5", `{"spec":{"taints":null}}`))
	x.reads("rec-5", "a dry run", "none: no pod is taken off", "explained: would_act", "dryRun: would set")
}
