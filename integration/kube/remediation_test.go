package kube

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// fenceWorld is a recoveryWorld whose rec-4 has one power supply. The test plays the executors.
type fenceWorld struct {
	*recoveryWorld

	dynamic dynamic.Interface
	lock    sync.Mutex
	on      bool     // state of the power supply
	cut     bool     // state of the port to its storage: cut off
	ran     []string // methods that were run
}

var (
	remediations = schema.GroupVersionResource{Group: "fencing-agent.io", Version: "v1alpha1", Resource: "fencingremediations"}
	nodefences   = schema.GroupVersionResource{Group: "fencing-agent.io", Version: "v1alpha1", Resource: "nodefences"}
)

func newFenceWorld(t *testing.T, cluster string) *fenceWorld {
	t.Helper()
	return newFenceWorldOf(t, cluster, "rec-4")
}

// newFenceWorldOf returns a world in which another node has the power supply.
func newFenceWorldOf(t *testing.T, cluster, node string) *fenceWorld {
	t.Helper()
	w := &fenceWorld{recoveryWorld: newRecoveryWorld(t), on: true}
	text, err := os.ReadFile("../../deploy/controller/nodefence.yaml")
	w.must(err)
	apply(t, w.plane, string(text))
	if w.dynamic, err = dynamic.NewForConfig(w.plane.Admin()); err != nil {
		t.Fatal(err)
	}
	w.settings(map[string][2]string{
		"fence-cluster-config":         {"config.properties", cluster},
		"fence-config-" + node:         {"config.properties", "node_name=" + node + "\npower_management=bmc-off bmc-on"},
		"fence-method-template-bmc":    {"template.properties", "agent_name=fence_ipmilan\nip=192.0.2.4\npassword_secret=bmc/password"},
		"fence-method-bmc-off-" + node: {"method.properties", "template=fence-method-template-bmc\naction=off"},
		"fence-method-bmc-on-" + node:  {"method.properties", "template=fence-method-template-bmc\naction=on"},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.execute(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return w
}

// settings creates ConfigMaps for fencing by devices, each with one file.
func (w *fenceWorld) settings(files map[string][2]string) {
	w.t.Helper()
	for name, data := range files {
		m := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: name}, Data: map[string]string{data[0]: data[1]}}
		_, err := w.admin.CoreV1().ConfigMaps(controllerSpace).Create(w.t.Context(), m, meta.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = w.admin.CoreV1().ConfigMaps(controllerSpace).Update(w.t.Context(), m, meta.UpdateOptions{})
		}
		w.must(err)
		w.t.Cleanup(func() {
			_ = w.admin.CoreV1().ConfigMaps(controllerSpace).Delete(context.Background(), name, meta.DeleteOptions{})
		})
	}
}

// execute does what the kubelet and kube-controller-manager do for a Job, and what its executor does to the power
// supply.
func (w *fenceWorld) execute(ctx context.Context) {
	jobs, err := w.admin.BatchV1().Jobs(controllerSpace).List(ctx, meta.ListOptions{})
	if err != nil {
		return
	}
	for i := range jobs.Items {
		j := &jobs.Items[i]
		if *j.Spec.Suspend || len(j.Status.Conditions) > 0 {
			continue
		}
		method, ok := j.Annotations["fencing-agent.io/method"], true
		w.lock.Lock()
		switch args := j.Spec.Template.Spec.Containers[0].Args; {
		case slices.Contains(args, "plan"):
			method = ""
		case slices.Contains(args, "check"):
			ok = !w.on
			if strings.HasPrefix(method, "port-") {
				ok = w.cut
			}
			method = "check"
		case strings.HasPrefix(method, "port-"):
			w.cut = method == "port-off"
		default:
			w.on = method == "bmc-on"
		}
		if method != "" {
			w.ran = append(w.ran, method)
		}
		w.lock.Unlock()
		word := `{"ok":true,"status":"off"}`
		if !ok {
			word = `{"ok":false,"status":"on"}`
		}
		if err := w.end(ctx, j, ok, word); err != nil && ctx.Err() == nil {
			w.t.Error(err)
		}
	}
}

// end writes how a Job has ended, and the output of its executor.
func (w *fenceWorld) end(ctx context.Context, j *batch.Job, ok bool, word string) error {
	yes := true
	p := &core.Pod{ObjectMeta: meta.ObjectMeta{
		Name: j.Name, Labels: j.Spec.Template.Labels,
		OwnerReferences: []meta.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID, Controller: &yes}},
	}, Spec: j.Spec.Template.Spec}
	p.Spec.NodeName = "rec-1"
	made, err := w.admin.CoreV1().Pods(controllerSpace).Create(ctx, p, meta.CreateOptions{})
	if err != nil {
		return fmt.Errorf("pod of a Job: %w", err)
	}
	code := int32(0)
	kind, early := batch.JobComplete, batch.JobSuccessCriteriaMet
	if !ok {
		kind, early, code = batch.JobFailed, batch.JobFailureTarget, 1
	}
	made.Status.ContainerStatuses = []core.ContainerStatus{{Name: "executor", State: core.ContainerState{Terminated: &core.ContainerStateTerminated{Message: word, ExitCode: code}}}}
	if _, err := w.admin.CoreV1().Pods(controllerSpace).UpdateStatus(ctx, made, meta.UpdateOptions{}); err != nil {
		return fmt.Errorf("pod of a Job: %w", err)
	}
	now := meta.Now()
	j.Status.StartTime = &now
	if ok {
		j.Status.CompletionTime = &now
		j.Status.Succeeded = 1
	}
	for _, c := range []batch.JobConditionType{early, kind} {
		j.Status.Conditions = append(j.Status.Conditions, batch.JobCondition{Type: c, Status: core.ConditionTrue, Reason: "Test", LastTransitionTime: now, LastProbeTime: now})
	}
	if _, err := w.admin.BatchV1().Jobs(controllerSpace).UpdateStatus(ctx, j, meta.UpdateOptions{}); err != nil {
		return fmt.Errorf("status of a Job: %w", err)
	}
	return nil
}

func (w *fenceWorld) power() bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.on
}

// condition returns the status of a condition as the creator of the remediation sees it; empty if the remediation is
// gone.
func (w *fenceWorld) condition(name, kind string) string {
	m, err := w.dynamic.Resource(remediations).Namespace(controllerSpace).Get(w.t.Context(), name, meta.GetOptions{})
	if err != nil {
		return ""
	}
	list, _, _ := unstructured.NestedSlice(m.Object, "status", "conditions")
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return fmt.Sprint(c["status"])
		}
	}
	return "none"
}

// fenced reports whether rec-4 has a NodeFence.
func (w *fenceWorld) fenced() bool {
	_, err := w.dynamic.Resource(nodefences).Get(w.t.Context(), "node-fence-rec-4", meta.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err == nil
}

const fenceSettings = "dryRun: false\nreplicas: {pause: 0s}\nnodeFence: {enabled: true, image: executor}\n"

// A client that was written from medik8s' contract drives a remediation to its end: it creates the object, waits for
// Succeeded, and deletes the object when the Node is Ready.
func TestRemediationByItsContract(t *testing.T) {
	w := newFenceWorld(t, "begin_by=remediation\nsettle=1\npoll_interval=1")
	w.kubelets("rec-1", "rec-2", "rec-3")
	w.replica("controller-ra", fenceSettings)
	w.replica("controller-rb", fenceSettings)
	w.unknown()
	mine := w.dynamic.Resource(remediations).Namespace(controllerSpace)
	_, err := mine.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "fencing-agent.io/v1alpha1", "kind": "FencingRemediation",
		"metadata": map[string]any{"name": "rec-4-x", "annotations": map[string]any{"remediation.medik8s.io/node-name": "rec-4"}},
		"spec":     map[string]any{},
	}}, meta.CreateOptions{})
	w.must(err)
	began := time.Now()
	await(t, "it is processed", func() bool {
		return w.condition("rec-4-x", "Processing") == "True" || w.condition("rec-4-x", "Succeeded") == "True"
	})
	await(t, "it has succeeded", func() bool { return w.condition("rec-4-x", "Succeeded") == "True" })
	t.Logf("from the wish to the proof: %v", time.Since(began).Round(time.Millisecond))
	await(t, "the power is on again", w.power)
	w.boots(nextID)
	w.kubelets("rec-4")
	w.ready()
	w.must(mine.Delete(t.Context(), "rec-4-x", meta.DeleteOptions{}))
	await(t, "it is gone", func() bool { return w.condition("rec-4-x", "Succeeded") == "" })
	if w.fenced() {
		t.Error("the remediation is gone, and its NodeFence is there")
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	if got := strings.Join(slices.Compact(w.ran), " "); got != "check bmc-off bmc-on" {
		t.Errorf("ran %s", got)
	}
}

// ready writes what the kubelet writes when it is back.
func (w *fenceWorld) ready() {
	w.t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q,"lastTransitionTime":%q}]}}`, core.NodeReady, core.ConditionTrue, time.Now().UTC().Format(time.RFC3339))
	_, err := w.admin.CoreV1().Nodes().Patch(w.t.Context(), "rec-4", types.StrategicMergePatchType, []byte(patch), meta.PatchOptions{}, "status")
	w.must(err)
}
