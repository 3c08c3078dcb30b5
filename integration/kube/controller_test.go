package kube

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	events "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

const (
	controllerSpace = "fencing-controller"
	outOfService    = "node.kubernetes.io/out-of-service"
	deathsKey       = "fencing-agent.io/deaths"
	deadID          = "024bc581-b3a3-4be2-9d1c-0123456789ab"
	deadBoot        = "024bc581b3a34be3"
	nextID          = "124bc581-b3a3-4be2-9d1c-0123456789ab"
)

// recoveryWorld has four Nodes with Leases. One of them is dead and has a pod. The test plays kubelet, agents and
// kube-controller-manager.
type recoveryWorld struct {
	t     *testing.T
	plane *controlplane.ControlPlane
	admin *kubernetes.Clientset
	as    *kubernetes.Clientset // the controller's service account
	token string
	pids  []int  // process ids of the replicas
	pages string // address at which the next replica serves /nodes; empty: nowhere
	page  string // address of its status page
}

var applyController sync.Once

func newRecoveryWorld(t *testing.T) *recoveryWorld {
	t.Helper()
	p := plane(t)
	text, err := os.ReadFile("../../deploy/controller/controller.yaml")
	if err != nil {
		t.Fatal(err)
	}
	applyController.Do(func() { apply(t, p, string(text)) })
	w := &recoveryWorld{t: t, plane: p, admin: client(t, p.Admin())}
	if w.token, err = p.ServiceAccountToken(t.Context(), controllerSpace, controllerSpace, ""); err != nil {
		t.Fatal(err)
	}
	w.as = client(t, p.As(w.token))
	w.node("rec-0")
	// A change without effect is allowed.
	await(t, "the policies are in force", func() bool {
		return apierrors.IsForbidden(patchNode(w.as, "rec-0", fmt.Sprintf(`{"metadata":{"labels":{"x":"%d"}}}`, time.Now().UnixNano())))
	})
	for i := range 4 {
		w.node(fmt.Sprintf("rec-%d", i+1))
	}
	return w
}

// must fails the test on an error.
func (w *recoveryWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// node creates a Node that is Ready, with a fresh Lease.
func (w *recoveryWorld) node(name string) {
	w.t.Helper()
	n := &core.Node{ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{groupLabel: "rec"}}}
	made, err := w.admin.CoreV1().Nodes().Create(w.t.Context(), n, meta.CreateOptions{})
	w.must(err)
	w.t.Cleanup(func() {
		_ = w.admin.CoreV1().Nodes().Delete(context.Background(), name, meta.DeleteOptions{})
	})
	boot := "f" + deadID[1:]
	if name == "rec-4" {
		boot = deadID
	}
	w.comesUp(made, boot)
}

// renewed sets when a Lease was renewed.
func (w *recoveryWorld) renewed(name string, at time.Time) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, at.UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
	_, err := w.admin.CoordinationV1().Leases("kube-node-lease").Patch(w.t.Context(), name, types.MergePatchType, []byte(patch), meta.PatchOptions{})
	w.must(err)
}

// kubelets renew the Leases of the living Nodes until they are stopped or the test ends.
func (w *recoveryWorld) kubelets(names ...string) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				for _, n := range names {
					patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
					_, _ = w.admin.CoordinationV1().Leases("kube-node-lease").Patch(ctx, n, types.MergePatchType, []byte(patch), meta.PatchOptions{})
				}
			case <-ctx.Done():
				return
			}
		}
	})
	stop = func() { cancel(); wg.Wait() }
	w.t.Cleanup(stop)
	return stop
}

// tells makes the agent of a Node call rec-4 dead, or withdraw that.
func (w *recoveryWorld) tells(node string, dead bool) {
	w.t.Helper()
	value := "null"
	if dead {
		value = fmt.Sprintf("%q", `[{"node":"rec-4","boot":"`+deadBoot+`","proof":"time","at":"2026-05-04T12:00:00Z","said":"f24bc581b3a34be3"}]`)
	}
	w.must(patchNode(w.admin, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, deathsKey, value)))
}

// account creates the service account that pods need; in a real cluster kube-controller-manager does that.
func (w *recoveryWorld) account(space string) {
	w.t.Helper()
	account := &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: "default", Namespace: space}}
	if _, err := w.admin.CoreV1().ServiceAccounts(space).Create(w.t.Context(), account, meta.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
}

// pod creates a pod that is bound to the dead Node.
func (w *recoveryWorld) pod(space, name string, more func(*core.Pod)) *core.Pod {
	w.t.Helper()
	w.account(space)
	p := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: name, Namespace: space}, Spec: core.PodSpec{NodeName: "rec-4", Containers: []core.Container{{Name: "c", Image: "i"}}}}
	if more != nil {
		more(p)
	}
	made, err := w.admin.CoreV1().Pods(space).Create(w.t.Context(), p, meta.CreateOptions{})
	w.must(err)
	w.t.Cleanup(func() {
		_ = w.admin.CoreV1().Pods(space).Delete(context.Background(), name, meta.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	})
	return made
}

func (w *recoveryWorld) taint() string {
	w.t.Helper()
	n, err := w.admin.CoreV1().Nodes().Get(w.t.Context(), "rec-4", meta.GetOptions{})
	w.must(err)
	for _, t := range n.Spec.Taints {
		if t.Key == outOfService {
			return t.Value
		}
	}
	return ""
}

// noted returns the boot that the Node's annotation calls disputed.
func (w *recoveryWorld) noted() string {
	w.t.Helper()
	n, err := w.admin.CoreV1().Nodes().Get(w.t.Context(), "rec-4", meta.GetOptions{})
	w.must(err)
	return n.Annotations["fencing-agent.io/disputed"]
}

func (w *recoveryWorld) there(space, pod string) bool {
	w.t.Helper()
	_, err := w.admin.CoreV1().Pods(space).Get(w.t.Context(), pod, meta.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err == nil
}

// replica runs the program with the manifest's service account. kill ends it like a crash.
func (w *recoveryWorld) replica(name, settings string) (kill func(), log string) {
	w.t.Helper()
	dir := w.t.TempDir()
	bin := os.Getenv(programsEnv)
	if bin == "" {
		bin = "../../bin"
	}
	config, kubeconfig, logFile := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "kubeconfig"), filepath.Join(w.plane.Dir(), name+".log")
	w.must(w.plane.WriteKubeconfig(kubeconfig, w.plane.URL(), w.token))
	w.must(os.WriteFile(config, fmt.Appendf(nil, "kubeconfig: %s\nmetrics: {address: %q}\nhealth: {address: \"0\"}\npage: {address: %q}\n%s", kubeconfig, or(w.pages, "0"), w.page, settings), 0o600))
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	w.must(err)
	defer out.Close()
	cmd := exec.Command(filepath.Join(bin, "fencing-controller"), "--config", config)
	cmd.Env = append(os.Environ(), "POD_NAME="+name, "POD_NAMESPACE="+controllerSpace)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	done := make(chan struct{})
	w.must(controlplane.StartChild(cmd, func(error) { close(done) }))
	w.pids = append(w.pids, cmd.Process.Pid)
	kill = func() {
		_ = cmd.Process.Kill() // it may already have ended
		<-done
	}
	w.t.Cleanup(kill)
	await(w.t, name+" runs", func() bool { return strings.Contains(read(logFile), "Starting workers") })
	return kill, logFile
}

func read(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

// This test goes from the annotations to the taint, from the eviction to the end of the pod, and from the new boot to
// the end of the taint. One replica is killed meanwhile.
func TestControllerRecoversANode(t *testing.T) {
	w := newRecoveryWorld(t)
	w.kubelets("rec-1", "rec-2", "rec-3")
	w.pod("default", "db-0", nil)
	w.pod("default", "agent", func(p *core.Pod) { p.Spec.Tolerations = []core.Toleration{{Operator: core.TolerationOpExists}} })
	w.pod("default", "kept", func(p *core.Pod) {
		p.Labels = map[string]string{"remediation.medik8s.io/exclude-from-remediation": "true"}
	})
	kill, log := w.replica("controller-a", "dryRun: false\nreplicas: {pause: 0s}\n")
	_, other := w.replica("controller-b", "dryRun: false\nreplicas: {pause: 0s}\n")

	w.tells("rec-1", true)
	for _, l := range []string{log, other} {
		await(t, "one report is not believed", func() bool { return strings.Contains(read(l), `"phase":"unproven"`) })
	}
	w.tells("rec-2", true)
	for _, l := range []string{log, other} {
		await(t, "the controller waits for the Lease", func() bool { return strings.Contains(read(l), "waits until the Lease has run out") })
	}
	if got := w.taint(); got != "" {
		t.Fatalf("the taint %q while the Lease is fresh", got)
	}
	kill()
	// The Lease is renewed after the proof was accepted: there will be no taint, even after the Lease has expired
	// again.
	w.renewed("rec-4", time.Now().Add(-time.Minute))
	await(t, "it is in dispute", func() bool {
		return strings.Contains(read(other), `"phase":"disputed"`)
	})
	if got := w.taint(); got != "" {
		t.Fatalf("the taint %q after the Lease was renewed", got)
	}
	// A replica that starts finds an expired Lease, and the other replica's note of the dispute.
	await(t, "the dispute is noted", func() bool { return w.noted() == deadBoot })
	_, third := w.replica("controller-c", "dryRun: false\nreplicas: {pause: 0s}\n")
	await(t, "a new replica knows of the dispute", func() bool { return strings.Contains(read(third), `"phase":"disputed"`) })
	if got := w.taint(); got != "" {
		t.Fatalf("the taint %q by a replica that has started after the dispute", got)
	}
	// A person withdraws the dispute. Both replicas continue without a restart.
	began := time.Now()
	w.must(patchNode(w.admin, "rec-4", `{"metadata":{"annotations":{"fencing-agent.io/disputed":null}}}`))
	await(t, "the taint", func() bool { return w.taint() == "fenced-"+deadBoot })
	took := time.Since(began)
	t.Logf("from the withdrawal of the dispute to the taint: %v", took.Round(time.Millisecond))
	// The Lease is watched for 11.4 s.
	if took > 25*time.Second {
		t.Errorf("%v is long", took)
	}
	if !w.there("default", "db-0") {
		t.Fatal("the pod is deleted before it is evicted")
	}
	began = time.Now()
	// This stands for the eviction by taint.
	for _, p := range []string{"db-0", "kept"} {
		w.must(w.admin.CoreV1().Pods("default").Delete(t.Context(), p, meta.DeleteOptions{}))
	}
	await(t, "the pod is gone", func() bool { return !w.there("default", "db-0") })
	t.Logf("eviction to the end of the pod: %v", time.Since(began).Round(time.Millisecond))
	if !w.there("default", "agent") || !w.there("default", "kept") {
		t.Error("a pod that tolerates the taint or is excluded was deleted")
	}
	w.mustShowEvents("NodeReleased")

	began = time.Now()
	w.must(w.admin.CoreV1().Pods("default").Delete(t.Context(), "kept", meta.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	w.boots(nextID)
	w.kubelets("rec-4")
	await(t, "the taint comes off", func() bool { return w.taint() == "" })
	took = time.Since(began)
	t.Logf("new boot to the end of the taint: %v", took.Round(time.Millisecond))
	if took < 10*time.Second {
		t.Errorf("the taint came off after %v: a kubelet needs longer to start", took)
	}
}

func (w *recoveryWorld) boots(id string) {
	w.t.Helper()
	w.renewed("rec-4", time.Now())
	patch := fmt.Sprintf(`{"status":{"nodeInfo":{"bootID":%q}}}`, id)
	_, err := w.admin.CoreV1().Nodes().Patch(w.t.Context(), "rec-4", types.MergePatchType, []byte(patch), meta.PatchOptions{}, "status")
	w.must(err)
}

// unknown does to the Node what kube-controller-manager does when its Lease is not renewed.
func (w *recoveryWorld) unknown() { w.isUnknown("rec-4") }

func (w *recoveryWorld) mustShowEvents(reason string) {
	w.t.Helper()
	await(w.t, "the Event "+reason, func() bool {
		list, err := w.admin.CoreV1().Events("default").List(w.t.Context(), meta.ListOptions{FieldSelector: "involvedObject.name=rec-4"})
		w.must(err)
		for i := range list.Items {
			if list.Items[i].Reason == reason {
				return true
			}
		}
		return false
	})
}

// This test goes from the second annotation to the taint, and from the barrier to the end of a pod that is evicted at
// once.
func TestControllerIsQuick(t *testing.T) {
	w := newRecoveryWorld(t)
	w.kubelets("rec-1", "rec-2", "rec-3")
	w.pod("default", "db-1", nil)
	w.renewed("rec-4", time.Now().Add(-time.Minute))
	w.unknown() // otherwise the Lease is watched for 11.4 s
	_, log := w.replica("controller-q", "dryRun: false\nreplicas: {pause: 0s}\nevidence: {readyUnknown: false}\n")
	w.tells("rec-1", true)
	await(t, "one report is not believed", func() bool { return strings.Contains(read(log), `"phase":"unproven"`) })
	began := time.Now()
	w.tells("rec-2", true)
	await(t, "the taint", func() bool { return w.taint() != "" })
	barrier := time.Now()
	w.must(w.admin.CoreV1().Pods("default").Delete(t.Context(), "db-1", meta.DeleteOptions{}))
	await(t, "the pod is gone", func() bool { return !w.there("default", "db-1") })
	t.Logf("second reporter to the taint: %v; to the end of the pod: %v more", barrier.Sub(began).Round(time.Millisecond), time.Since(barrier).Round(time.Millisecond))
	if d := time.Since(barrier); d < 900*time.Millisecond {
		t.Errorf("the pod was deleted %v after the barrier", d)
	}
}

// A dry run writes only Events.
func TestControllerDryRun(t *testing.T) {
	w := newRecoveryWorld(t)
	w.kubelets("rec-1", "rec-2")
	w.renewed("rec-4", time.Now().Add(-time.Minute))
	w.tells("rec-1", true)
	w.tells("rec-2", true)
	w.unknown()
	_, log := w.replica("controller-dry", "replicas: {pause: 0s}\n")
	await(t, "it says what it would do", func() bool { return strings.Contains(read(log), "dryRun: would set") })
	w.mustShowEvents("DryRun")
	if got := w.taint(); got != "" {
		t.Errorf("the taint %q", got)
	}
}

// The policies forbid what the roles leave open.
func TestControllerMayDoNothingElse(t *testing.T) {
	w := newRecoveryWorld(t)
	taint := func(key, value, effect string) string {
		return fmt.Sprintf(`{"spec":{"taints":[{"key":%q,"value":%q,"effect":%q}]}}`, key, value, effect)
	}
	refused := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want forbidden", what, err)
		}
	}
	for what, patch := range map[string]string{
		"a label":                  label("x"),
		"an annotation":            `{"metadata":{"annotations":{"fencing-agent.io/deaths":"[]"}}}`,
		"another boot's dispute":   note("124bc581b3a34be3"),
		"a dispute of no boot":     note("x"),
		"cordon":                   `{"spec":{"unschedulable":true}}`,
		"another taint":            taint("x", "fenced-"+deadBoot, "NoExecute"),
		"another boot":             taint(outOfService, "fenced-124bc581b3a34be3", "NoExecute"),
		"no boot":                  taint(outOfService, "nodeshutdown", "NoExecute"),
		"another effect":           taint(outOfService, "fenced-"+deadBoot, "NoSchedule"),
		"a finalizer":              `{"metadata":{"finalizers":["example.com/x"]}}`,
		"another taint beside its": `{"spec":{"taints":[{"key":"x","effect":"NoSchedule"},{"key":"` + outOfService + `","value":"fenced-` + deadBoot + `","effect":"NoExecute"}]}}`,
	} {
		refused(what, patchNode(w.as, "rec-4", patch))
	}
	_, err := w.as.CoreV1().Nodes().Patch(t.Context(), "rec-4", types.MergePatchType, []byte(`{"status":{"nodeInfo":{"bootID":"x"}}}`), meta.PatchOptions{}, "status")
	refused("the status", err)
	refused("deletion of a Node", w.as.CoreV1().Nodes().Delete(t.Context(), "rec-4", meta.DeleteOptions{}))

	w.itsOwnTaintAndNote(taint, refused)

	pod := w.pod("default", "victim", nil)
	now, uid := new(int64(0)), pod.UID
	exact := &meta.Preconditions{UID: &uid, ResourceVersion: &pod.ResourceVersion}
	remove := func(space, name string, p *meta.Preconditions) error {
		return w.as.CoreV1().Pods(space).Delete(t.Context(), name, meta.DeleteOptions{GracePeriodSeconds: now, Preconditions: p})
	}
	refused("deletion by name", remove("default", "victim", nil))
	refused("deletion by UID alone", remove("default", "victim", &meta.Preconditions{UID: &uid}))
	stale := "1"
	if err := remove("default", "victim", &meta.Preconditions{UID: &uid, ResourceVersion: &stale}); !apierrors.IsConflict(err) {
		t.Errorf("deletion of a pod that has changed: %v, want a conflict", err)
	}
	w.must(remove("default", "victim", exact))
	mirror := w.pod("default", "mirror", func(p *core.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.mirror": "x"} })
	refused("deletion of a mirror", remove("default", "mirror", &meta.Preconditions{UID: &mirror.UID, ResourceVersion: &mirror.ResourceVersion}))
	system := w.pod("kube-system", "dns", nil)
	refused("deletion in kube-system", remove("kube-system", "dns", &meta.Preconditions{UID: &system.UID, ResourceVersion: &system.ResourceVersion}))

	stamp := meta.NewMicroTime(time.Now())
	report := func(kind, by string) error {
		_, err := w.as.EventsV1().Events("default").Create(t.Context(), &events.Event{
			ObjectMeta: meta.ObjectMeta{GenerateName: "rec-", Namespace: "default"}, EventTime: stamp, ReportingController: by, ReportingInstance: "x",
			Action: "Recovery", Reason: "X", Type: "Normal", Regarding: core.ObjectReference{Kind: kind, Name: "rec-4"},
		}, meta.CreateOptions{})
		return err
	}
	w.must(report("Node", "fencing-controller"))
	refused("an Event about a pod", report("Pod", "fencing-controller"))
	refused("an Event by another name", report("Node", "kubelet"))
	for what, err := range map[string]error{
		"secrets":    second(w.as.CoreV1().Secrets("default").List(t.Context(), meta.ListOptions{})),
		"a new Node": second(w.as.CoreV1().Nodes().Create(t.Context(), &core.Node{ObjectMeta: meta.ObjectMeta{Name: "rec-9"}}, meta.CreateOptions{})),
		"a Lease":    second(w.as.CoordinationV1().Leases("kube-node-lease").List(t.Context(), meta.ListOptions{})),
	} {
		refused(what, err)
	}
}

// itsOwnTaintAndNote checks what the controller may do with its own taint and annotation, and that it may not touch
// other taints.
func (w *recoveryWorld) itsOwnTaintAndNote(taint func(key, value, effect string) string, refused func(what string, err error)) {
	w.t.Helper()
	w.must(patchNode(w.admin, "rec-4", taint(outOfService, "nodeshutdown", "NoExecute")))
	refused("removal of somebody else's", patchNode(w.as, "rec-4", `{"spec":{"taints":null}}`))
	refused("replacement of somebody else's", patchNode(w.as, "rec-4", taint(outOfService, "fenced-"+deadBoot, "NoExecute")))
	w.must(patchNode(w.admin, "rec-4", `{"spec":{"taints":[{"key":"x","effect":"NoSchedule"}]}}`))
	both := `{"spec":{"taints":[{"key":"x","effect":"NoSchedule"},{"key":"` + outOfService + `","value":"%s-` + deadBoot + `","effect":"NoExecute"}]}}`
	w.must(patchNode(w.as, "rec-4", fmt.Sprintf(both, "fenced")))
	w.must(patchNode(w.as, "rec-4", fmt.Sprintf(both, "disputed")))
	refused("removal before another boot", patchNode(w.as, "rec-4", `{"spec":{"taints":[{"key":"x","effect":"NoSchedule"}]}}`))
	w.must(patchNode(w.as, "rec-4", note(deadBoot)))
	refused("a dispute taken back", patchNode(w.as, "rec-4", `{"metadata":{"annotations":{"fencing-agent.io/disputed":null}}}`))
	refused("a dispute of another boot in its place", patchNode(w.as, "rec-4", note("124bc581b3a34be3")))
	w.boots(nextID)
	w.must(patchNode(w.as, "rec-4", `{"spec":{"taints":[{"key":"x","effect":"NoSchedule"}]}}`))
	w.must(patchNode(w.as, "rec-4", `{"metadata":{"annotations":{"fencing-agent.io/disputed":null}}}`))
}

func note(boot string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{"fencing-agent.io/disputed":%q}}}`, boot)
}

func second[T any](_ T, err error) error { return err }

// The manifest passes the server's validation, and its pod that of the namespace.
func TestControllerManifestPassesTheServer(t *testing.T) {
	w := newRecoveryWorld(t)
	passes(t, w.plane, "../../deploy/controller/controller.yaml")
	passes(t, w.plane, "../../deploy/node/kubernetes/watchdog-test.yaml")
	d, err := w.admin.AppsV1().Deployments(controllerSpace).Get(t.Context(), controllerSpace, meta.GetOptions{})
	w.must(err)
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "replica", Namespace: controllerSpace, Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec}
	_, err = w.admin.CoreV1().Pods(controllerSpace).Create(t.Context(), pod, meta.CreateOptions{DryRun: []string{meta.DryRunAll}})
	w.must(err)
}
