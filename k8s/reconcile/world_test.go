package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

const (
	groupLabel = "node.deckhouse.io/group"
	deadID     = "024bc581-b3a3-4be2-9d1c-0123456789ab"
	deadBoot   = "024bc581b3a34be3"
	otherID    = "124bc581-b3a3-4be2-9d1c-0123456789ab"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// world is an API server in memory with everything that the controller asks it for. It checks the preconditions of
// writes.
type world struct {
	client.Writer // calls that have no method below are not made

	t      *testing.T
	now    time.Time
	rv     int
	nodes  map[string]*corev1.Node
	leases map[string]*coordinationv1.Lease
	pods   map[string]*corev1.Pod
	events []string
	counts map[string]int
	fail   error
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, now: noon, nodes: map[string]*corev1.Node{}, leases: map[string]*coordinationv1.Lease{}, pods: map[string]*corev1.Pod{}, counts: map[string]int{},
	}
	for i := range 4 {
		w.node(fmt.Sprintf("n%d", i+1), otherID)
	}
	w.node("n4", deadID)
	w.renew("n4", noon.Add(-time.Minute))
	return w
}

func (w *world) version() string { w.rv++; return strconv.Itoa(w.rv) }

func (w *world) node(name, bootID string) {
	w.nodes[name] = &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: w.version(), Labels: map[string]string{groupLabel: "worker"}, Annotations: map[string]string{}},
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: bootID}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	w.renew(name, w.now)
}

func (w *world) renew(name string, at time.Time) {
	seconds, renewed := int32(40), metav1.NewMicroTime(at)
	w.leases[name] = &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease, ResourceVersion: w.version()},
		Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	}
}

// ready sets n4's condition Ready. kube-controller-manager makes it Unknown when the Lease has not been renewed.
func (w *world) ready(s corev1.ConditionStatus) {
	w.nodes["n4"].Status.Conditions[0].Status, w.nodes["n4"].ResourceVersion = s, w.version()
}

func (w *world) pod(name string, more func(*corev1.Pod)) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: w.version()}, Spec: corev1.PodSpec{NodeName: "n4"}}
	if more != nil {
		more(p)
	}
	w.pods[name] = p
}

func (w *world) evict(name string) {
	at := metav1.NewTime(w.now)
	w.pods[name].DeletionTimestamp, w.pods[name].ResourceVersion = &at, w.version()
}

func (w *world) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	switch o := o.(type) {
	case *corev1.Node:
		w.counts["get nodes"]++
		if n := w.nodes[key.Name]; n != nil && w.fail == nil {
			n.DeepCopyInto(o)
			return nil
		}
	case *coordinationv1.Lease:
		w.counts["get leases in "+key.Namespace]++
		if l := w.leases[key.Name]; l != nil && w.fail == nil {
			l.DeepCopyInto(o)
			return nil
		}
	}
	if w.fail != nil {
		return w.fail
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, key.Name)
}

func (w *world) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	for _, opt := range opts {
		opt.ApplyToList(&o)
	}
	switch list := list.(type) {
	case *corev1.PodList:
		w.counts["list pods"]++
		for _, p := range w.pods {
			if o.FieldSelector.String() == "spec.nodeName="+p.Spec.NodeName {
				list.Items = append(list.Items, *p.DeepCopy())
			}
		}
	case *corev1.NodeList:
		w.counts["list nodes"]++
		for _, n := range w.nodes {
			list.Items = append(list.Items, *n.DeepCopy())
		}
	}
	return w.fail
}

func (w *world) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	w.counts["patch nodes"]++
	body, err := p.Data(o)
	if err != nil {
		return err
	}
	var patch struct {
		Metadata struct {
			ResourceVersion string
			Annotations     map[string]*string
		}
		Spec map[string][]corev1.Taint
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		return err
	}
	n := w.nodes[o.GetName()]
	if len(patch.Metadata.Annotations)+len(patch.Spec) != 1 {
		w.t.Errorf("patch %s", body)
	}
	if n.ResourceVersion != patch.Metadata.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, n.Name, nil)
	}
	if n.ResourceVersion = w.version(); len(patch.Spec) > 0 {
		n.Spec.Taints = patch.Spec["taints"]
	}
	for k, v := range patch.Metadata.Annotations {
		if delete(n.Annotations, k); v != nil {
			n.Annotations[k] = *v
		}
	}
	return nil
}

func (w *world) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	w.counts["delete pods"]++
	d := client.DeleteOptions{}
	for _, opt := range opts {
		opt.ApplyToDelete(&d)
	}
	p := w.pods[o.GetName()]
	switch {
	case d.GracePeriodSeconds == nil || *d.GracePeriodSeconds != 0 || d.Preconditions == nil || d.Preconditions.UID == nil || d.Preconditions.ResourceVersion == nil:
		w.t.Errorf("delete %s with %+v", o.GetName(), d)
		return nil
	case p == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, o.GetName())
	case p.UID != *d.Preconditions.UID || p.ResourceVersion != *d.Preconditions.ResourceVersion:
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, p.Name, nil)
	}
	delete(w.pods, p.Name)
	return nil
}

func (w *world) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	w.events = append(w.events, reason+" "+regarding.(*corev1.Node).Name+" "+fmt.Sprintf(note, args...))
}

func (w *world) taint() string {
	for _, t := range w.nodes["n4"].Spec.Taints {
		if t.Key == recovery.TaintKey {
			return t.Value
		}
	}
	return ""
}

// tell has the agent of a Node call n4 dead, or withdraw that.
func (w *world) tell(r *Reconciler, node string, dead bool) {
	n := w.nodes[node]
	if n.Annotations[deaths.Annotation] = "[]"; dead {
		n.Annotations[deaths.Annotation] = deaths.Encode([]deaths.Death{{Node: "n4", Boot: deadBoot, Proof: "time", At: noon, Said: deaths.Boot(otherID)}})
	}
	n.ResourceVersion = w.version()
	w.show(r)
}

// show does what the watch does.
func (w *world) show(r *Reconciler) {
	for name, n := range w.nodes {
		list, _ := deaths.Decode(n.Annotations[deaths.Annotation])
		r.index.put(name, n.Labels[groupLabel], list)
	}
}

func (w *world) reconciler(more func(*Options)) *Reconciler {
	o := Options{
		Reader: w, Writer: w, Events: w, Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry(), false),
		Now: func() time.Time { return w.now }, Self: "a", Replicas: func() []Replica { return []Replica{{Name: "a"}} },
		Recovery: recovery.Settings{Settle: time.Second}, Belief: belief.Settings{MinReporters: 2, Unknown: true},
		Storm: storm.Settings{Evicting: 1, DeletesPerSecond: 20, MaxDeadPercent: 100}, Pause: 3 * time.Second,
		GroupLabel: groupLabel, ExcludeNamespaces: []string{"kube-system"},
	}
	if more != nil {
		more(&o)
	}
	r := New(o)
	w.show(r)
	return r
}

// run does what the queue does for one Node, on virtual time. The Leases of all but n4 are renewed meanwhile.
func (w *world) run(r *Reconciler, d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		for _, n := range []string{"n1", "n2", "n3"} {
			w.renew(n, w.now)
		}
		result, err := r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "n4"}})
		if err != nil {
			w.t.Fatal(err)
		}
		if result.RequeueAfter == 0 || w.now.Add(result.RequeueAfter).After(end) {
			w.now = end
			return
		}
		w.now = w.now.Add(result.RequeueAfter)
	}
}

func (w *world) wantEvents(reasons ...string) {
	w.t.Helper()
	for _, r := range reasons {
		found := false
		for _, e := range w.events {
			found = found || strings.HasPrefix(e, r+" n4 ")
		}
		if !found {
			w.t.Errorf("no Event %s in\n%s", r, strings.Join(w.events, "\n"))
		}
	}
}
