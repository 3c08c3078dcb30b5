package fencing

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

// There are several signs that a Node should be left alone, or is being removed.
func TestWhichNodesAreKept(t *testing.T) {
	now := metav1.Now()
	for name, n := range map[string]corev1.Node{
		"is being deleted":         {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}},
		"the autoscaler's":         {Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "other"}, {Key: autoscalerRemoval}, {Key: "another"}}}},
		"an annotation of its own": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"fencing-agent.io/disable": "", "a": ""}}},
	} {
		if !nodeOf(&n).Kept {
			t.Errorf("%s: it is not kept", name)
		}
	}
	if n := (corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node.kubernetes.io/unreachable"}}}}); nodeOf(&n).Kept {
		t.Error("any taint keeps a node")
	}
}

// A taint that evicts no pod is not the recovery's report that a boot has ended.
func TestTaintThatEvictsNobody(t *testing.T) {
	const id = "024bc581-b3a3-4be2-8000-000000000000"
	boot := deaths.Boot(id)
	for effect, fenced := range map[corev1.TaintEffect]string{corev1.TaintEffectNoExecute: boot, corev1.TaintEffectNoSchedule: ""} {
		n := corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: recovery.TaintKey, Value: recovery.Fenced(boot), Effect: effect}}}}
		n.Status.NodeInfo.BootID = id
		if got := nodeOf(&n).Fenced; got != fenced {
			t.Errorf("%s: %q, want %q", effect, got, fenced)
		}
	}
}

// A Lease lasts for the duration in it, by the reader's clock; a Lease that was created again counts as renewed.
func TestHowLongALeaseLasts(t *testing.T) {
	s := newStage(t)
	lease := func(uid string, seconds int32) {
		at := metav1.NewMicroTime(begin)
		s.put(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n4", UID: types.UID(uid)}, Spec: coordinationv1.LeaseSpec{RenewTime: &at, LeaseDurationSeconds: &seconds}})
	}
	silent := func(after time.Duration) bool {
		t.Helper()
		is, err := s.r.silent(t.Context(), "n4", begin.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	lease("a", 10)
	if silent(0) || silent(10*time.Second) || !silent(10*time.Second+1) {
		t.Error("it lasts for 10 s, and not for less or longer")
	}
	lease("b", 10)
	if silent(11*time.Second) || silent(21*time.Second) || !silent(21*time.Second+1) {
		t.Error("it was made again, at the same time of renewal")
	}
	lease("c", 90)
	if silent(30*time.Second) || silent(120*time.Second) || !silent(120*time.Second+1) {
		t.Error("it lasts for 90 s")
	}
}

// A Job's result is the last message of its own container, in a pod of that Job.
func TestWhoSpeaksForAJob(t *testing.T) {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "off", UID: "j1"}}
	pod := func(owner types.UID, container, message string, code int32) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: ptr(true)}}}, Spec: corev1.PodSpec{NodeName: "n2"}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message, ExitCode: code}}}}
		return p
	}
	const off, barrier = `{"ok":true,"status":"off"}`, `{"ok":true,"status":"off","barrier":true}`
	for name, c := range map[string]struct {
		pod                             corev1.Pod
		reported, off, barrier, unknown bool
	}{
		"its executor":                    {pod("j1", executorContainer, off, 0), true, true, false, false},
		"with a barrier":                  {pod("j1", executorContainer, barrier, 0), true, true, true, false},
		"a pod of another Job":            {pod("j0", executorContainer, off, 0), false, false, false, false},
		"another container":               {pod("j1", "sidecar", off, 0), false, false, false, false},
		"off, and it failed":              {pod("j1", executorContainer, off, 1), true, false, false, false},
		"a barrier, and it failed":        {pod("j1", executorContainer, barrier, 1), true, false, false, false},
		"not ok":                          {pod("j1", executorContainer, `{"ok":false,"status":"off","barrier":true}`, 0), true, false, false, false},
		"usage":                           {pod("j1", executorContainer, "", usageCode), true, false, false, true},
		"usage, and it says what":         {pod("j1", executorContainer, "no such option", usageCode), true, false, false, false},
		"without a word, and it succeeds": {pod("j1", executorContainer, "", 0), true, false, false, false},
	} {
		got := jobOf(j, []corev1.Pod{c.pod})
		if got.Reported != c.reported || got.Off != c.off || got.Barrier != c.barrier || got.Unknown != c.unknown {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The time for which storages have been about to be given back starts at zero in three cases: for another NodeFence,
// after a clock that went back, and for another set of storages.
func TestHowLongAReturnWasSeen(t *testing.T) {
	s := newStage(t)
	o := &nodefence.Object{UID: "a", Spec: nodefence.Spec{NodeName: "n4"}}
	o.Status = nodefence.Status{Boot: "b", Storages: []nodefence.Severed{{Driver: "csi", From: begin, Returned: begin.Add(time.Minute)}}}
	if o.Status.Returns() == "" {
		t.Fatal("nothing is about to be given back")
	}
	look := func(after, want time.Duration, what string) {
		t.Helper()
		if got := s.r.returning(o, begin.Add(after)); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	look(10*time.Second, 0, "at first")
	look(15*time.Second, 5*time.Second, "later")
	look(5*time.Second, 0, "after the clock went back")
	look(8*time.Second, 3*time.Second, "and on")
	o.UID = "b"
	look(9*time.Second, 0, "of another NodeFence")
}
