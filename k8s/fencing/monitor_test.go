package fencing

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// calm returns a stage on which all nodes are Ready and the same device fences a second node.
func calm(t *testing.T) *stage {
	s := newStage(t)
	s.node("n4", true, "0", s.now)
	for name, data := range map[string]map[string]string{
		"fence-config-n3":         {"config.properties": "node_name=n3\npower_management=bmc-off"},
		"fence-method-bmc-off-n3": {"method.properties": "template=fence-method-template-bmc\nplug=3\naction=off"},
	} {
		s.put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data})
	}
	s.configure("trigger_after=0", "monitor_interval=60")
	return s
}

func (s *stage) monitors() []batchv1.Job {
	var list batchv1.JobList
	if err := s.List(context.Background(), &list); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// looks lets the Runner poll for a while, without any executor.
func (s *stage) looks(d time.Duration) {
	s.t.Helper()
	for end := s.now.Add(d); s.now.Before(end); s.now = s.now.Add(10 * time.Second) {
		if _, err := s.r.round(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// end ends a Job with this last message of its executor.
func (s *stage) end(j *batchv1.Job, kind batchv1.JobConditionType, word string) {
	j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue}}
	j.CreationTimestamp = metav1.NewTime(s.now)
	s.put(j)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: j.Name + "-x", Labels: j.Labels, OwnerReferences: s.of(j)}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "executor", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: word}}}}
	s.put(p)
}

func TestMonitor(t *testing.T) {
	s := calm(t)
	s.looks(50 * time.Second)
	s.looks(70 * time.Second)
	list := s.monitors()
	if len(list) == 0 || len(list) > 2 {
		t.Fatalf("%d Jobs for one device in two minutes", len(list))
	}
	j := &list[0]
	pod := j.Spec.Template.Spec
	args := strings.Join(pod.Containers[0].Args, " ")
	if !strings.HasSuffix(args, "--action monitor") || strings.Contains(args, "check") || *j.Spec.Suspend || len(j.OwnerReferences) > 0 || j.Labels[ownerLabel] != "" || j.Spec.Template.Labels[ownerLabel] != "" {
		t.Errorf("%s, %+v", args, j)
	}
	s.end(j, batchv1.JobFailed, `{"ok":false,"message":"login failed"}`)
	s.looks(40 * time.Second)
	gauge := s.r.Metrics.reachable.WithLabelValues("fence_ipmilan 192.0.2.4")
	if got := testutil.ToFloat64(gauge); got != 0 || testutil.CollectAndCount(s.r.Metrics.reachable) != 1 {
		t.Errorf("it is reachable: %v", got)
	}
	s.now = s.now.Add(time.Minute)
	for _, j := range s.monitors() {
		if len(j.Status.Conditions) == 0 {
			s.end(&j, batchv1.JobComplete, `{"ok":true}`)
		}
	}
	s.looks(40 * time.Second)
	if got := testutil.ToFloat64(s.r.Metrics.reachable.WithLabelValues("fence_ipmilan 192.0.2.4")); got != 1 {
		t.Errorf("it is not reachable: %v", got)
	}
	s.configure("trigger_after=0", "monitor_interval=0")
	s.looks(40 * time.Second)
	if testutil.CollectAndCount(s.r.Metrics.reachable) != 0 {
		t.Error("a device that is not asked any more has an answer")
	}
	if f := s.fence(); f != nil {
		t.Errorf("a device that does not answer has begun %+v", f)
	}
}

// No device is asked while a node is being fenced, nor right after a start, nor with an interval of 0.
func TestNotMonitored(t *testing.T) {
	s := calm(t)
	s.node("n4", false, "0", s.now)
	s.looks(3 * time.Minute)
	for _, j := range s.monitors() {
		if j.Labels[monitorLabel] != "" {
			t.Errorf("%s asks while a node is not Ready", j.Name)
		}
	}
	s = calm(t)
	s.configure("trigger_after=0", "monitor_interval=0")
	s.looks(10 * time.Minute)
	if n := len(s.monitors()); n > 0 {
		t.Errorf("%d Jobs", n)
	}
	s = calm(t)
	s.configure("trigger_after=0", "monitor_interval=86400")
	s.looks(time.Minute)
	if n := len(s.monitors()); n > 0 {
		t.Errorf("%d Jobs right after the start", n)
	}
}

// A board with one session is free for the Job that fences.
func TestMonitorsMakeWay(t *testing.T) {
	s := calm(t)
	s.looks(4 * time.Minute)
	jobs := s.monitors()
	if len(jobs) < 2 {
		t.Fatalf("%d Jobs", len(jobs))
	}
	s.end(&jobs[0], batchv1.JobComplete, `{"ok":true}`)
	s.node("n4", false, "0", s.now)
	if _, err := s.r.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left, fencing []string
	for _, j := range s.monitors() {
		if j.Labels[monitorLabel] != "" {
			left = append(left, j.Name)
		} else {
			fencing = append(fencing, j.Name)
		}
	}
	if len(left) != 1 || left[0] != jobs[0].Name || len(fencing) == 0 {
		t.Errorf("left %v of %d, fencing by %v", left, len(jobs), fencing)
	}
}

// stuck is an API server with a webhook that lets nobody delete one object.
type stuck struct {
	*api
	name string
}

func (s *stuck) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if o.GetName() == s.name {
		return errors.New("a webhook refuses it")
	}
	return s.api.Delete(ctx, o, opts...)
}

// One Job that cannot be deleted delays neither the other Jobs nor those that fence; its deletion is tried again.
func TestAMonitorThatCannotBeDeleted(t *testing.T) {
	s := calm(t)
	s.looks(4 * time.Minute)
	jobs := s.monitors()
	api := &stuck{s.api, jobs[0].Name}
	s.r.Writer = api
	s.node("n4", false, "0", s.now)
	count := func() (left, fencing int) {
		t.Helper()
		if _, err := s.r.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, j := range s.monitors() {
			if j.Labels[monitorLabel] != "" {
				left++
			} else {
				fencing++
			}
		}
		return left, fencing
	}
	if left, fencing := count(); len(jobs) < 2 || left != 1 || fencing == 0 {
		t.Errorf("of %d Jobs %d are left; %d fence", len(jobs), left, fencing)
	}
	api.name = ""
	if left, _ := count(); left != 0 {
		t.Errorf("%d Jobs are left", left)
	}
}
