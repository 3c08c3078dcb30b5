package fencing

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// api is an API server in memory: objects as JSON, with the preconditions that the Runner relies on.
type api struct {
	forbidden string // a kind that may not be read
	lacks     string // a field that the schema of a NodeFence's status does not have
	t         *testing.T
	objects   map[string][]byte // by KIND/NAME
	decoded   map[string]decoded
	version   int
	log       []string
}

// decoded is a decoded object, kept since lists are read again and again.
type decoded struct {
	text   *byte // the text that was decoded: each write makes another one
	object client.Object
}

func kindOf(o runtime.Object) string {
	return strings.TrimSuffix(reflect.TypeOf(o).Elem().Name(), "List")
}

func key(o client.Object) string { return kindOf(o) + "/" + o.GetName() }

var group = schema.GroupResource{Resource: "objects"}

func (a *api) put(o client.Object) {
	a.version++
	o.SetResourceVersion(fmt.Sprint(a.version))
	text, err := json.Marshal(o)
	if err != nil {
		a.t.Fatal(err)
	}
	a.objects[key(o)] = text
}

func (a *api) Get(_ context.Context, name types.NamespacedName, o client.Object, _ ...client.GetOption) error {
	if kindOf(o) == a.forbidden {
		return apierrors.NewForbidden(group, name.Name, nil)
	}
	k := kindOf(o) + "/" + name.Name
	text, ok := a.objects[k]
	if !ok {
		return apierrors.NewNotFound(group, name.Name)
	}
	to := reflect.ValueOf(o).Elem()
	if was := a.decoded[k]; to.IsZero() && was.text == &text[0] && reflect.TypeOf(was.object) == reflect.TypeOf(o) {
		to.Set(reflect.ValueOf(was.object.DeepCopyObject()).Elem())
		return nil
	}
	return json.Unmarshal(text, o)
}

func (a *api) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if kindOf(list) == a.forbidden {
		return apierrors.NewForbidden(group, "", nil)
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	var items []runtime.Object
	var keys []string
	prefix := kindOf(list) + "/"
	for k := range a.objects {
		if strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		was := a.decoded[k]
		if was.text != &a.objects[k][0] {
			item := emptyOf(list)
			if err := json.Unmarshal(a.objects[k], item); err != nil {
				return err
			}
			if a.decoded == nil {
				a.decoded = map[string]decoded{}
			}
			was = decoded{&a.objects[k][0], item}
			a.decoded[k] = was
		}
		if o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(was.object.GetLabels())) {
			items = append(items, was.object.DeepCopyObject())
		}
	}
	return meta.SetList(list, items)
}

// emptyOf returns an empty item for a list.
func emptyOf(list client.ObjectList) client.Object {
	switch list.(type) {
	case *corev1.NodeList:
		return &corev1.Node{}
	case *corev1.ConfigMapList:
		return &corev1.ConfigMap{}
	case *corev1.PodList:
		return &corev1.Pod{}
	case *batchv1.JobList:
		return &batchv1.Job{}
	case *coordinationv1.LeaseList:
		return &coordinationv1.Lease{}
	case *NodeFenceList:
		return &NodeFence{}
	default:
		return &FencingRemediation{}
	}
}

// prune does what an API server does with a field that the schema lacks.
func (a *api) prune(o client.Object, validation string) error {
	f, ok := o.(*NodeFence)
	if !ok || a.lacks == "" {
		return nil
	}
	text, _ := json.Marshal(f.Status)
	status := map[string]any{}
	if err := json.Unmarshal(text, &status); err != nil || status[a.lacks] == nil {
		return err
	}
	if validation == metav1.FieldValidationStrict {
		return apierrors.NewBadRequest(fmt.Sprintf("NodeFence in version \"v1alpha1\" cannot be handled as a NodeFence: strict decoding error: unknown field \"status.%s\"", a.lacks))
	}
	delete(status, a.lacks)
	text, _ = json.Marshal(status)
	f.Status = nodefence.Status{}
	return json.Unmarshal(text, &f.Status)
}

func dryRun(opts []client.CreateOption) bool {
	var c client.CreateOptions
	c.ApplyOptions(opts)
	return len(c.DryRun) > 0
}

func (a *api) Create(_ context.Context, o client.Object, opts ...client.CreateOption) error {
	var c client.CreateOptions
	c.ApplyOptions(opts)
	if err := a.prune(o, c.FieldValidation); err != nil || dryRun(opts) {
		return err
	}
	if _, there := a.objects[key(o)]; there {
		return apierrors.NewAlreadyExists(group, o.GetName())
	}
	a.version++
	o.SetUID(types.UID(fmt.Sprint("uid-", a.version)))
	a.log = append(a.log, "create "+kindOf(o))
	a.put(o)
	return nil
}

func (a *api) Update(_ context.Context, o client.Object, opts ...client.UpdateOption) error {
	var u client.UpdateOptions
	u.ApplyOptions(opts)
	if err := a.prune(o, u.FieldValidation); err != nil {
		return err
	}
	old := &metav1.PartialObjectMetadata{}
	text, there := a.objects[key(o)]
	if !there {
		return apierrors.NewNotFound(group, o.GetName())
	}
	if err := json.Unmarshal(text, old); err != nil {
		return err
	}
	if old.ResourceVersion != o.GetResourceVersion() {
		return apierrors.NewConflict(group, o.GetName(), nil)
	}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		delete(a.objects, key(o))
		return nil
	}
	a.put(o)
	return nil
}

func (a *api) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	job := &batchv1.Job{}
	if err := a.Get(context.Background(), types.NamespacedName{Name: o.GetName()}, job); err != nil {
		return err
	}
	text, _ := p.Data(o)
	if !strings.Contains(string(text), `"uid":"`+string(job.UID)+`"`) {
		return apierrors.NewConflict(group, o.GetName(), nil)
	}
	job.Spec.Suspend = ptr(false)
	a.put(job)
	return nil
}

func (a *api) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	var d client.DeleteOptions
	d.ApplyOptions(opts)
	if d.Preconditions == nil || d.Preconditions.UID == nil {
		a.t.Errorf("%s is deleted without its UID", key(o))
	}
	f := &NodeFence{}
	if _, ok := o.(*NodeFence); ok && a.Get(context.Background(), types.NamespacedName{Name: o.GetName()}, f) == nil && len(f.Finalizers) > 0 {
		if f.UID != *d.Preconditions.UID {
			return apierrors.NewConflict(group, o.GetName(), nil)
		}
		now := metav1.Now()
		f.DeletionTimestamp = &now
		a.put(f)
		return nil
	}
	delete(a.objects, key(o))
	return nil
}

func (a *api) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return apierrors.NewMethodNotSupported(group, "apply")
}

func (a *api) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return apierrors.NewMethodNotSupported(group, "deletecollection")
}

// events keeps what people are told.
type events struct{ reasons, notes []string }

func (e *events) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	e.reasons, e.notes = append(e.reasons, reason), append(e.notes, fmt.Sprintf(note, args...))
}

// stage is a node with one supply and a Runner on virtual time.
type stage struct {
	*api
	r      *Runner
	now    time.Time
	events *events
	proven []string
	ran    []string                                     // methods of Jobs that were started
	on     bool                                         // its supply has power
	word   string                                       // the last message that executors write
	of     func(j *batchv1.Job) []metav1.OwnerReference // the owners of the Job's pods
}

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const boots = "024bc581-b3a3-4be2-9d1c-01234567890"

func newStage(t *testing.T) *stage {
	s := &stage{api: &api{t: t, objects: map[string][]byte{}}, now: begin, events: &events{}, on: true}
	s.word = `{"ok":true,"status":"off"}`
	s.of = func(j *batchv1.Job) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID, Controller: ptr(true)}}
	}
	for name, data := range map[string]map[string]string{
		"fence-cluster-config":      {"config.properties": "trigger_after=0"},
		"fence-config-n4":           {"config.properties": "node_name=n4\npower_management=bmc-off bmc-on"},
		"fence-method-template-bmc": {"template.properties": "agent_name=fence_ipmilan\nip=192.0.2.4\npassword_secret=bmc/password"},
		"fence-method-bmc-off-n4":   {"method.properties": "template=fence-method-template-bmc\naction=off"},
		"fence-method-bmc-on-n4":    {"method.properties": "template=fence-method-template-bmc\naction=on"},
	} {
		s.put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data})
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		s.node(n, true, "0", s.now)
	}
	s.node("n4", false, "0", s.now)
	s.r = &Runner{
		Reader: s.api, Writer: s.api, Events: s.events, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Metrics: NewMetrics(prometheus.NewRegistry()),
		Now: func() time.Time { return s.now }, Namespace: "fencing-controller", Image: "executor:1", Self: "a", Replicas: func() []string { return []string{"a"} },
		Proven: func(n string) { s.proven = append(s.proven, n) },
	}
	return s
}

func (s *stage) meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func (s *stage) node(name string, ready bool, boot string, since time.Time) {
	status := corev1.ConditionUnknown
	if ready {
		status = corev1.ConditionTrue
	}
	s.put(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(begin)},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{BootID: strings.Replace(boots, "024b", boot+"24b", 1) + "0"},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(since), LastHeartbeatTime: metav1.NewTime(since)}},
		},
	})
}

// round makes one round of the Runner, and then runs the Jobs that were started.
func (s *stage) round() {
	s.t.Helper()
	if _, err := s.r.round(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.now = s.now.Add(2 * time.Second)
	var list batchv1.JobList
	_ = s.List(context.Background(), &list)
	for i := range list.Items {
		j := &list.Items[i]
		if *j.Spec.Suspend || len(j.Status.Conditions) > 0 {
			continue
		}
		args := strings.Join(j.Spec.Template.Spec.Containers[0].Args, " ")
		method, ok := j.Annotations["fencing-agent.io/method"], true
		switch {
		case strings.Contains(args, "--action plan"):
			method = ""
		case strings.Contains(args, "--action check"):
			ok, method = !s.on, "check"
		default:
			s.on = method == "bmc-on"
		}
		if method != "" {
			s.ran = append(s.ran, method)
		}
		kind := batchv1.JobComplete
		if !ok {
			kind = batchv1.JobFailed
		}
		j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue}}
		s.put(j)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: j.Name + "-x", Labels: maps.Clone(j.Labels), OwnerReferences: s.of(j)}, Spec: corev1.PodSpec{NodeName: "n2"}}
		pod.Labels[batchv1.JobNameLabel] = j.Name
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "executor", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: s.word}}},
			{Name: "sidecar", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: `{"ok":true,"status":"off"}`}}},
		}
		s.put(pod)
	}
}

func (s *stage) fence() *NodeFence {
	f := &NodeFence{}
	if s.Get(context.Background(), types.NamespacedName{Name: "node-fence-n4"}, f) != nil {
		return nil
	}
	return f
}

func (s *stage) rounds(n int) {
	s.t.Helper()
	for range n {
		s.round()
	}
}

// configure writes the part for all nodes.
func (s *stage) configure(lines ...string) {
	s.put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fence-cluster-config"}, Data: map[string]string{"config.properties": strings.Join(lines, "\n")}})
}

func clientKey(name string) types.NamespacedName { return types.NamespacedName{Name: name} }
