package fencing

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

const dead = "024bc581b3a34be3"

// From NotReady to the end: the plug is checked and switched off, which is a proof. Then it is switched on, and the
// NodeFence is deleted when the node is back.
func TestRound(t *testing.T) {
	s := newStage(t)
	s.rounds(6)
	f := s.fence()
	if f == nil || f.Status.Step != nodefence.Power || f.Status.Phase != nodefence.Done || !slices.Equal(s.ran, []string{"check", "bmc-off", "bmc-on"}) {
		t.Fatalf("ran %v: %+v", s.ran, f)
	}
	if f.OwnerReferences[0].Name != "n4" || f.Finalizers[0] != finalizer || f.Status.Jobs[0].Node != "n2" {
		t.Errorf("object: %+v", f)
	}
	for action, want := range map[string][2]float64{"check": {2, 1}, "off": {1, 0}, "on": {1, 0}} { // the plug was on; each step first checks it
		got := [2]float64{testutil.ToFloat64(s.r.Metrics.jobs.WithLabelValues(action, "succeeded")), testutil.ToFloat64(s.r.Metrics.jobs.WithLabelValues(action, "failed"))}
		if got != want {
			t.Errorf("%s: %v Jobs have succeeded and failed, want %v", action, got, want)
		}
	}
	if ok, err := s.r.Proof(t.Context(), "n4", dead); !ok || err != nil || !slices.Contains(s.proven, "n4") {
		t.Errorf("proof: %v %v, told %v", ok, err, s.proven)
	}
	for _, boot := range []string{"", "124bc581b3a34be3"} {
		if ok, _ := s.r.Proof(t.Context(), "n4", boot); ok {
			t.Errorf("it is a proof for the boot %q", boot)
		}
	}
	if ok, err := s.r.Proof(t.Context(), "n1", dead); ok || err != nil {
		t.Error("a proof for another node")
	}
	s.node("n4", true, "1", s.now)
	for range 40 {
		s.round()
	}
	if s.fence() != nil || !s.on {
		t.Errorf("it is still there: %+v", s.fence())
	}
	for _, want := range []string{"NodeFenceStarted", "FenceJob", "PowerOffConfirmed", "FenceStepDone", "NodeFenceEnded"} {
		if !slices.Contains(s.events.reasons, want) {
			t.Errorf("no Event %s: %v", want, s.events.reasons)
		}
	}
}

// A node has lost its power: nothing is switched, and that is a proof.
func TestNoPower(t *testing.T) {
	s := newStage(t)
	s.on = false
	s.rounds(4)
	if ok, _ := s.r.Proof(t.Context(), "n4", dead); !ok || !slices.Equal(s.ran, []string{"check"}) {
		t.Errorf("ran %v: %+v", s.ran, s.fence())
	}
	s.node("n4", true, "0", s.now) // its device has lied
	s.rounds(2)
	if ok, _ := s.r.Proof(t.Context(), "n4", dead); ok {
		t.Errorf("it is still a proof: %+v", s.fence().Status)
	}
}

func TestStorm(t *testing.T) {
	s := newStage(t)
	s.put(&corev1.ConfigMap{ObjectMeta: s.meta("fence-config-n3"), Data: map[string]string{"config.properties": "node_name=n3\npower_management=bmc-off"}})
	s.put(&corev1.ConfigMap{ObjectMeta: s.meta("fence-method-bmc-off-n3"), Data: map[string]string{"method.properties": "template=fence-method-template-bmc\naction=off\nplug=3"}})
	s.node("n3", false, "0", s.now)
	if s.rounds(3); s.fence() != nil {
		t.Error("all managed nodes are not Ready, and one is fenced")
	}
}

// Three of four Nodes are not Ready, and only one of them is managed: the fault is on this side, and not in that node.
func TestStormOfNodesThatAreNotManaged(t *testing.T) {
	s := newStage(t)
	s.node("n2", false, "0", s.now)
	s.node("n3", false, "0", s.now)
	if s.rounds(3); s.fence() != nil {
		t.Error("it is fenced")
	}
}

// If a limit cannot be read, no fencing begins by a default that may be less careful.
func TestClusterConfigWithProblems(t *testing.T) {
	s := newStage(t)
	s.put(&corev1.ConfigMap{ObjectMeta: s.meta("fence-cluster-config"), Data: map[string]string{"config.properties": "trigger_after=5m"}})
	if s.rounds(20); s.fence() != nil || !slices.Equal(s.events.reasons, []string{"FencingSkipped"}) { // longer than its default
		t.Errorf("Events %v, NodeFence %+v", s.events.reasons, s.fence())
	}
}

// Guards: an option that the agent does not know, judging by the ConfigMap for the executor's image, is reported before
// it is needed. It refuses no node, since that ConfigMap may be older than the image. A ConfigMap that cannot be read
// is reported as well.
func TestOptionsThatAgentsDoNotKnow(t *testing.T) {
	for text, serious := range map[string]float64{
		`{"fence_ipmilan": {"actions": ["on", "off", "status"], "parameters": [{"name": "ip", "getopt": "a"}, {"name": "password", "getopt": "p"}]}}`: 0,
		`{"fence_ipmilan": {"actions": ["on", "off", "status"], "parameters": [{"name": "ip", "getopt": "a"}]}}`:                                      0, // the agent ignores it
		`{"fence_ipmilan": {"actions": ["on", "off", "status"], "parameters": [{"name": "ip", "getopt": "a"}, {"name": "passwort", "getopt": "p"}]}}`: 2, // in both methods
		`{"fence_apc": {}}`: 1,
		"[]":                1,
	} {
		s := newStage(t)
		s.put(&corev1.ConfigMap{ObjectMeta: s.meta(fenceconfig.AgentsObject), Data: map[string]string{fenceconfig.AgentsKey: text}})
		s.rounds(8)
		if got := testutil.ToFloat64(s.r.Metrics.problems); got != serious {
			t.Errorf("%s: %v problems, want %v", text, got, serious)
		}
		if ok, err := s.r.Proof(t.Context(), "n4", dead); !ok || err != nil {
			t.Errorf("%s: it is not fenced: %v %+v", text, err, s.fence())
		}
	}
}

// Only the report of a Job's executor means off. That a Job has succeeded does not: an image that is not an executor
// may succeed.
func TestOffIsTheExecutorsWord(t *testing.T) {
	for what, change := range map[string]func(s *stage){
		"no word":           func(s *stage) { s.word = "" },
		"no executor":       func(s *stage) { s.word = "hello" },
		"a plug that is on": func(s *stage) { s.word = `{"ok":true,"status":"on"}` },
		"it failed":         func(s *stage) { s.word = `{"ok":false,"status":"off"}` },
		"another's pod":     func(s *stage) { s.of = func(*batchv1.Job) []metav1.OwnerReference { return nil } },
	} {
		s := newStage(t)
		s.on = false // each Job completes, including the checks
		change(s)
		s.rounds(8)
		if ok, _ := s.r.Proof(t.Context(), "n4", dead); ok {
			t.Errorf("%s: it is a proof: %+v", what, s.fence().Status)
		}
	}
}

// In a small cluster, Jobs have soon failed on each node. The next Job still has to run somewhere, but never on the
// node that is fenced.
func TestFailedExecutorsAreAvoidedAndNotForbidden(t *testing.T) {
	s := newStage(t)
	m := s.r.job(nodefence.Action{Name: "x", Avoid: []string{"n1", "n2"}}, &NodeFence{Spec: nodefence.Spec{NodeName: "n4"}})
	a := m.Spec.Template.Spec.Affinity.NodeAffinity
	forbidden := a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields
	if len(forbidden) != 1 || forbidden[0].Values[0] != "n4" {
		t.Errorf("forbidden: %+v", forbidden)
	}
	avoided := a.PreferredDuringSchedulingIgnoredDuringExecution
	if len(avoided) != 1 || len(avoided[0].Preference.MatchFields) != 2 || avoided[0].Preference.MatchFields[1].Values[0] != "n2" {
		t.Errorf("avoided: %+v", avoided)
	}
}

// The second replica leaves writes to the first for a while, and makes them if the first does not.
func TestReplicas(t *testing.T) {
	for _, self := range []string{"a", "b"} {
		s := newStage(t)
		s.r.Self, s.r.Pause, s.r.Replicas = self, 3*time.Second, func() []string { return []string{"a", "b"} }
		s.round()
		first := s.fence() != nil
		s.rounds(3)
		if s.fence() == nil {
			t.Errorf("%s never begins", self)
		}
		t.Logf("%s begins at once: %v", self, first)
	}
}

func TestJob(t *testing.T) {
	s := newStage(t)
	s.rounds(2)
	var list batchv1.JobList
	if err := s.List(context.Background(), &list); err != nil || len(list.Items) == 0 {
		t.Fatal(err, list)
	}
	j := slices.MinFunc(list.Items, func(a, b batchv1.Job) int { // by their ends: names are hashes
		return strings.Compare(a.Annotations[notAfterAnnotation], b.Annotations[notAfterAnnotation])
	})
	pod := j.Spec.Template.Spec
	terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields
	if terms[0].Values[0] != "n4" || *j.Spec.BackoffLimit != 0 || *pod.AutomountServiceAccountToken || pod.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("Job: %+v", j.Spec)
	}
	args := strings.Join(pod.Containers[0].Args, " ")
	for _, want := range []string{"run --dir /etc/fencing", "--action check", "--not-after 2026-", "--digest ", "--node n4"} {
		if !strings.Contains(args, want) {
			t.Errorf("no %q in %s", want, args)
		}
	}
	if len(pod.Volumes) != 3 || pod.Volumes[2].Secret.SecretName != "bmc" || pod.Volumes[2].Secret.Items[0].Key != "password" || len(pod.Containers[0].Env) != 1 || pod.Containers[0].Env[0].Name != madeVariable {
		t.Errorf("volumes: %+v", pod.Volumes)
	}
	if j.Annotations[notAfterAnnotation] == "" || j.OwnerReferences[0].Kind != "NodeFence" {
		t.Errorf("metadata: %+v", j.ObjectMeta)
	}
}

// A Job that asks once more switches nothing.
func TestAskedOnceMore(t *testing.T) {
	s := newStage(t)
	for role, want := range map[nodefence.Role]bool{nodefence.Check: true, nodefence.Again: true, nodefence.Main: false} {
		j := s.r.job(nodefence.Action{Role: role}, &NodeFence{Spec: nodefence.Spec{NodeName: "n4"}})
		if got := strings.Contains(strings.Join(j.Spec.Template.Spec.Containers[0].Args, " "), "--action check"); got != want {
			t.Errorf("%s asks: %v", role, got)
		}
	}
}

// A method that works on devices of a machine gets them: off on any other node, on at the node that is taken back.
func TestJobWithDevices(t *testing.T) {
	s := newStage(t)
	owner := &NodeFence{Spec: nodefence.Spec{NodeName: "n4"}}
	for action, want := range map[string]corev1.NodeSelectorOperator{fenceconfig.Off: corev1.NodeSelectorOpNotIn, fenceconfig.On: corev1.NodeSelectorOpIn} {
		pod := s.r.job(nodefence.Action{Method: fenceconfig.Method{Action: action, HostDevices: true}}, owner).Spec.Template.Spec
		terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields
		if len(terms) != 1 || terms[0].Operator != want || terms[0].Values[0] != "n4" {
			t.Errorf("%s runs on %+v", action, terms)
		}
		c := pod.Containers[0]
		if !*c.SecurityContext.Privileged || *pod.SecurityContext.RunAsUser != 0 || c.VolumeMounts[2].MountPath != "/dev" || pod.Volumes[3].HostPath.Path != "/run/cluster" {
			t.Errorf("%s: %+v", action, pod)
		}
	}
	if pod := s.r.job(nodefence.Action{Method: fenceconfig.Method{Action: fenceconfig.Off}}, owner).Spec.Template.Spec; len(pod.Volumes) != 2 || pod.Containers[0].SecurityContext.Privileged != nil {
		t.Errorf("without devices: %+v", pod)
	}
}

func TestName(t *testing.T) {
	if NameOf("n4") != "node-fence-n4" || len(NameOf(strings.Repeat("n", 253))) > 253 || NameOf(strings.Repeat("n", 252)+"a") == NameOf(strings.Repeat("n", 252)+"b") {
		t.Error(NameOf("n4"))
	}
}

// A kubelet is silent when its Lease has not changed for its whole duration, by the clock of the replica that looks.
func TestSilent(t *testing.T) {
	s := newStage(t)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n4"}}
	lease.Spec.LeaseDurationSeconds = ptr(int32(10))
	look := func(after time.Duration, want bool) {
		t.Helper()
		s.now = s.now.Add(after)
		if got, err := s.r.silent(t.Context(), "n4", s.now); err != nil || got != want {
			t.Errorf("after %v: %v %v", after, got, err)
		}
	}
	look(0, false) // there is no Lease
	look(41*time.Second, true)
	lease.Spec.RenewTime = &metav1.MicroTime{Time: s.now.Add(-time.Hour)} // its clock is wrong
	s.put(lease)
	look(0, false)
	look(10*time.Second, false)
	look(time.Second, true)
	lease.Spec.RenewTime = &metav1.MicroTime{Time: s.now.Add(time.Hour)}
	s.put(lease)
	look(0, false)
	look(11*time.Second, true)
}

// An older role that does not allow reading the Lease keeps no node from being fenced.
func TestLeaseThatMayNotBeRead(t *testing.T) {
	s := newStage(t)
	s.forbidden = kindOf(&coordinationv1.Lease{})
	s.rounds(40)
	if f := s.fence(); f == nil || f.Status.Phase != nodefence.Done || !slices.Equal(s.ran, []string{"check", "bmc-off", "bmc-on"}) {
		t.Errorf("ran %v: %+v", s.ran, f)
	}
	s.now = s.now.Add(time.Hour)
	if silent, err := s.r.silent(t.Context(), "n4", s.now); silent || err == nil {
		t.Errorf("silent: %v, %v", silent, err)
	}
}

// Executors run on the nodes that reach the devices.
func TestSelector(t *testing.T) {
	s := newStage(t)
	s.r.Selector = map[string]string{"reaches": "devices"}
	j := s.r.job(nodefence.Action{Name: "j"}, &NodeFence{Spec: nodefence.Spec{NodeName: "n4"}})
	if got := j.Spec.Template.Spec.NodeSelector; got["reaches"] != "devices" {
		t.Errorf("%v", got)
	}
}
