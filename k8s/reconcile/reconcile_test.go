package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/fencing-agent/fencing-agent/k8s"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/ownership"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

func TestANodeDiesAndComesBack(t *testing.T) {
	w := newWorld(t)
	w.nodes["n4"].Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
	w.pod("db-0", nil)
	w.pod("agent", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} })
	r := w.reconciler(nil)
	w.run(r, time.Minute)
	if len(w.counts) > 0 {
		t.Errorf("requests about nodes that nobody calls dead: %v", w.counts)
	}
	w.renew("n4", w.now.Add(-time.Minute))
	w.tell(r, "n1", true)
	w.run(r, 10*time.Second)
	if w.taint() != "" {
		t.Fatal("one reporter is believed")
	}
	w.ready(corev1.ConditionUnknown)
	w.tell(r, "n2", true)
	w.run(r, 4*time.Second)
	if got := w.taint(); got != recovery.Fenced(deadBoot) || len(w.nodes["n4"].Spec.Taints) != 2 {
		t.Fatalf("taint %q, all %v", got, w.nodes["n4"].Spec.Taints)
	}
	if len(w.pods) != 2 {
		t.Fatal("a pod is deleted that is not evicted")
	}
	w.evict("db-0")
	w.run(r, 2*time.Second)
	if w.pods["db-0"] != nil || w.pods["agent"] == nil {
		t.Fatalf("pods %v", w.pods)
	}
	w.run(r, 5*time.Second)
	w.nodes["n4"].Status.NodeInfo.BootID = otherID
	w.ready(corev1.ConditionTrue)
	w.renew("n4", w.now.Add(10*time.Second))
	w.tell(r, "n1", false)
	w.tell(r, "n2", false)
	w.run(r, 30*time.Second)
	if w.taint() != "" || len(w.nodes["n4"].Spec.Taints) != 1 {
		t.Errorf("taints %v", w.nodes["n4"].Spec.Taints)
	}
	w.wantEvents("DeathUnproven", "DeathProven", "BarrierSet", "PodDeleted", "NodeReleased", "NodeReturns")
	m := r.options.Metrics
	if testutil.ToFloat64(m.deleted) != 1 || testutil.ToFloat64(m.taints.WithLabelValues("set")) != 1 || testutil.ToFloat64(m.taints.WithLabelValues("removed")) != 1 {
		t.Error("the metrics do not say so")
	}
	// Guard: the requests that are made are those that the roles grant.
	for what := range w.counts {
		verb, resource, _ := strings.Cut(what, " ")
		resource, space, _ := strings.Cut(resource, " in ")
		if !slices.ContainsFunc(k8s.Recovery(), func(a k8s.Access) bool {
			return a.Resource == resource && a.Namespace == space && slices.Contains(a.Verbs, verb)
		}) {
			t.Errorf("%s is not among the accesses", what)
		}
	}
	// What nobody needs is forgotten.
	w.run(r, 25*time.Minute)
	if len(r.machines) != 0 || testutil.ToFloat64(m.nodes.WithLabelValues("watching")) != 0 {
		t.Errorf("%d machines are kept", len(r.machines))
	}
}

func TestNodesAreTold(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(nil)
	told := func() string {
		var b strings.Builder
		r.WriteNodes(&b)
		return b.String()
	}
	if got := told(); got != "no Node is called dead\n" {
		t.Error(got)
	}
	w.tell(r, "n1", true)
	w.run(r, 3*time.Second)
	if got := told(); !strings.Contains(got, "n4    unproven  3s     1 of 2 Nodes name this boot (n1); called dead by 1 Nodes") {
		t.Error(got)
	}
	w.fail = errors.New("away")
	w.run(r, 3*time.Second)
	if got := told(); !strings.Contains(got, "last request failed: away") {
		t.Error(got)
	}
}

// Two replicas begin at once: each write happens once, and each uses what the other has done.
func TestTwoReplicasAtOnce(t *testing.T) {
	w := newWorld(t)
	w.pod("db-0", nil)
	w.ready(corev1.ConditionUnknown)
	a, b := w.reconciler(nil), w.reconciler(nil)
	w.tell(a, "n1", true)
	w.tell(a, "n2", true)
	w.show(b)
	for range 60 { // a renewal of the Lease would have shown
		w.run(a, 300*time.Millisecond)
		w.run(b, 300*time.Millisecond)
		if w.taint() != "" && w.pods["db-0"] != nil && w.pods["db-0"].DeletionTimestamp == nil {
			w.evict("db-0")
		}
	}
	set := testutil.ToFloat64(a.options.Metrics.taints.WithLabelValues("set")) + testutil.ToFloat64(b.options.Metrics.taints.WithLabelValues("set"))
	deleted := testutil.ToFloat64(a.options.Metrics.deleted) + testutil.ToFloat64(b.options.Metrics.deleted)
	if set != 1 || deleted != 1 || w.pods["db-0"] != nil || w.taint() != recovery.Fenced(deadBoot) {
		t.Errorf("%v taints set, %v pods deleted, taint %q", set, deleted, w.taint())
	}
	for _, r := range []*Reconciler{a, b} {
		if s := r.machines["n4"].machine.State(); s.Phase != recovery.Released {
			t.Errorf("%+v", s)
		}
	}
}

func TestOthersComeFirst(t *testing.T) {
	w := newWorld(t)
	first := w.reconciler(func(o *Options) {
		o.Replicas = func() []Replica { return []Replica{{Name: "a"}, {Name: "b", Node: "n1"}} }
	})
	second := w.reconciler(func(o *Options) { o.Replicas, o.Self = first.options.Replicas, "b" })
	w.tell(first, "n1", true)
	w.show(second)
	_, waitA := first.take("n4")
	_, waitB := second.take("n4")
	if waitA+waitB != 3*time.Second || waitA != 0 && waitB != 0 {
		t.Errorf("they wait %v and %v, want nothing and 3s", waitA, waitB)
	}
}

// The replica that comes first is called dead a moment after the node, as when both lose their power: it is not waited
// for.
func TestFirstDiesAMomentLater(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(func(o *Options) {
		o.Self, o.Replicas = "a", func() []Replica { return []Replica{{Name: "a", Node: "n2"}, {Name: "b", Node: "n3"}} }
	})
	dead := "n4"
	for i := 0; ownership.Rank(dead, "a", []string{"a", "b"}) == 0; i++ {
		dead = fmt.Sprintf("m%d", i)
		w.node(dead, deadID)
	}
	call := func(nodes ...string) {
		var list []deaths.Death
		for _, n := range nodes {
			list = append(list, deaths.Death{Node: n, Boot: deadBoot, Proof: "time", At: noon, Said: deaths.Boot(otherID)})
		}
		w.nodes["n1"].Annotations[deaths.Annotation] = deaths.Encode(list)
		w.show(r)
	}
	call(dead)
	if _, wait := r.take(dead); wait != 3*time.Second {
		t.Fatalf("waits %v for who comes first", wait)
	}
	w.now = w.now.Add(time.Second)
	call(dead, "n3")
	if _, wait := r.take(dead); wait != 0 {
		t.Errorf("waits %v more for a replica whose node is called dead", wait)
	}
	// What has begun is not put off again.
	call(dead)
	if _, wait := r.take(dead); wait != 0 {
		t.Errorf("waits %v again", wait)
	}
}

// Nothing is left to a replica on a node that is called dead. It is most likely dead itself, and its pod stays listed
// until it is evicted.
func TestDeadReplicasDoNotComeFirst(t *testing.T) {
	w := newWorld(t)
	replicas := func() []Replica { return []Replica{{Name: "a", Node: "n4"}, {Name: "b", Node: "n4"}} }
	for _, self := range []string{"a", "b"} {
		r := w.reconciler(func(o *Options) { o.Replicas, o.Self = replicas, self })
		w.tell(r, "n1", true)
		if _, wait := r.take("n4"); wait != 0 {
			t.Errorf("%s leaves the node for %v to the other, which is on it", self, wait)
		}
	}
}

// A replica that starts finds taints left by an earlier run of this program, and ignores foreign ones.
func TestSweepFindsTaints(t *testing.T) {
	w := newWorld(t)
	tainted := func(value string, effect corev1.TaintEffect) []corev1.Taint {
		return []corev1.Taint{{Key: recovery.TaintKey, Value: value, Effect: effect}}
	}
	w.nodes["n1"].Spec.Taints = tainted("nodeshutdown", corev1.TaintEffectNoExecute)
	w.nodes["n2"].Spec.Taints = tainted(recovery.Fenced(deadBoot), corev1.TaintEffectNoSchedule)
	w.nodes["n3"].Spec.Taints = tainted(recovery.Disputed(deadBoot), corev1.TaintEffectNoExecute)
	w.nodes["n4"].Spec.Taints = tainted(recovery.Fenced("324bc581b3a34be3"), corev1.TaintEffectNoExecute)
	w.node("n5", deadID)
	w.nodes["n5"].Annotations[recovery.NoteKey] = deadBoot
	w.renew("n4", w.now.Add(time.Hour))
	r := w.reconciler(nil)
	found := make(chan event.GenericEvent, 10)
	if err := (&sweeper{r, found}).sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(found) != 3 || r.machines["n3"] == nil || r.machines["n4"] == nil || r.machines["n5"] == nil {
		t.Errorf("%d found, machines %v", len(found), r.machines)
	}
	w.run(r, time.Minute)
	if w.taint() != "" {
		t.Errorf("the taint of an earlier boot stays: %q, %+v", w.taint(), r.machines["n4"].machine.State())
	}
	w.fail = errors.New("away")
	if err := (&sweeper{r, found}).sweep(t.Context()); err == nil {
		t.Error("an error is swallowed")
	}
}

// Guard: in a group of hundreds a death does not read hundreds of Nodes.
func TestFewReportersAreRead(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(nil)
	w.ready(corev1.ConditionUnknown)
	w.tell(r, "n1", true)
	w.run(r, 13*time.Second) // a renewal of the Lease would have shown
	w.counts = map[string]int{}
	for i := range 300 {
		name := fmt.Sprintf("m%d", i)
		w.node(name, otherID)
		w.nodes[name].Annotations[deaths.Annotation] = deaths.Encode([]deaths.Death{{Node: "n4", Boot: deadBoot, Proof: "time", At: noon, Said: deaths.Boot(otherID)}})
	}
	w.show(r)
	w.run(r, 500*time.Millisecond)
	if got := w.counts["get nodes"]; w.taint() == "" || got > 3*(1+recovery.MostReporters+2) {
		t.Errorf("%d Nodes were read, taint %q", got, w.taint())
	}
	// While the node stays dead, the number of Nodes that are read does not grow.
	w.counts = map[string]int{}
	for range 60 {
		for name := range w.nodes {
			if name != "n4" {
				w.renew(name, w.now)
			}
		}
		w.run(r, 30*time.Second)
	}
	rounds := w.counts["list pods"]
	if got := w.counts["get nodes"]; rounds < 30 || got > rounds*(1+2*recovery.MostReporters) {
		t.Errorf("%d Nodes were read in %d rounds", got, rounds)
	}
}

// Guard: while no reporter counts, that is shown, and the node is still looked at.
func TestNobodyWhoNamesItCounts(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(nil)
	delete(w.nodes["n4"].Labels, groupLabel)
	w.tell(r, "n1", true)
	w.tell(r, "n2", true)
	w.run(r, time.Minute)
	w.wantEvents("DeathUnproven")
	if n := w.counts["get nodes"]; n < 12 || n > 60 {
		t.Errorf("%d Nodes were read in a minute", n)
	}
}

func TestFailuresAreToldAndTriedAgain(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(nil)
	w.tell(r, "n1", true)
	w.tell(r, "n2", true)
	w.fail = context.DeadlineExceeded
	w.run(r, 10*time.Second)
	if n := testutil.ToFloat64(r.options.Metrics.failures); n < 3 || n > 20 {
		t.Errorf("%v failures in 10 s", n)
	}
	w.fail = nil
	w.run(r, time.Minute)
	if w.taint() == "" {
		t.Error("it does not go on")
	}
}

func TestPods(t *testing.T) {
	zero, ten, yes := int64(0), int64(10), true
	at := metav1.NewTime(noon)
	tolerating := func(ts ...corev1.Toleration) corev1.Pod { return corev1.Pod{Spec: corev1.PodSpec{Tolerations: ts}} }
	key := recovery.TaintKey
	for _, c := range []struct {
		name string
		pod  corev1.Pod
		want recovery.Pod
	}{
		{"plain", corev1.Pod{}, recovery.Pod{}},
		{"mirror", corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{mirror: "x"}}}, recovery.Pod{Tolerates: true}},
		{"all tolerated", tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists}), recovery.Pod{Tolerates: true}},
		{"NoExecute tolerated", tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}), recovery.Pod{Tolerates: true}},
		{"the key tolerated", tolerating(corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists}), recovery.Pod{Tolerates: true}},
		{"the usual value", tolerating(corev1.Toleration{Key: key, Value: conventional}), recovery.Pod{Tolerates: true}},
		{"the value", tolerating(corev1.Toleration{Key: key, Value: recovery.Fenced(deadBoot)}), recovery.Pod{Tolerates: true}},
		{"another value", tolerating(corev1.Toleration{Key: key, Value: "x"}), recovery.Pod{}},
		{"another effect", tolerating(corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}), recovery.Pod{}},
		{"another key", tolerating(corev1.Toleration{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists}), recovery.Pod{}},
		{"excluded", corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{excludeLabel: "true"}}}, recovery.Pod{Excluded: true}},
		{"of a system namespace", corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system"}}, recovery.Pod{Namespace: "kube-system", Excluded: true}},
		{"evicted", corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &at, DeletionGracePeriodSeconds: &ten}}, recovery.Pod{Deleting: true}},
		{"held", corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &at, DeletionGracePeriodSeconds: &zero}}, recovery.Pod{Deleting: true, Forced: true}},
	} {
		o := &Options{ExcludeNamespaces: []string{"kube-system"}}
		if got := o.podOf(&c.pod); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	o := &Options{StatefulSetsOnly: true}
	owned := corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Controller: &yes}}}}
	if o.podOf(&owned).Excluded || !o.podOf(&corev1.Pod{}).Excluded {
		t.Error("statefulset alone")
	}
}

func TestNodesAndLeases(t *testing.T) {
	at := metav1.NewTime(noon)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &at}}
	if got := nodeOf(n); !got.Leaving || got.Ready || got.Unknown || got.Boot != "" || got.Tainted {
		t.Errorf("%+v", got)
	}
	n = &corev1.Node{
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: autoscalerRemoval}}},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{BootID: deadID},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastHeartbeatTime: at}},
		},
	}
	if got := nodeOf(n); !got.Leaving || !got.Unknown || got.Boot != deadBoot || got.Heartbeat != "2026-05-04T12:00:00Z" {
		t.Errorf("%+v", got)
	}
	if got := leaseOf(&coordinationv1.Lease{}); got.Exists {
		t.Error("a Lease that was never renewed counts")
	}
	l := recovery.Lease{Exists: true, Renewed: noon, Duration: 40 * time.Second}
	if !l.Fresh(noon.Add(20*time.Second)) || l.Fresh(noon.Add(21*time.Second)) || (recovery.Lease{}).Fresh(noon) {
		t.Error("fresh is half of the duration")
	}
}

func TestIndex(t *testing.T) {
	x := newIndex()
	d := func(node string) deaths.Death { return deaths.Death{Node: node} }
	if got := x.put("n1", "g", []deaths.Death{d("n4"), d("n5")}); !slices.Equal(got, []string{"n4", "n5"}) {
		t.Errorf("touched %q", got)
	}
	x.put("n2", "g", []deaths.Death{d("n4")})
	x.put("n3", "h", nil)
	if got := x.put("n1", "g", []deaths.Death{d("n6")}); !slices.Equal(got, []string{"n4", "n5", "n6"}) {
		t.Errorf("touched %q", got)
	}
	if !slices.Equal(x.tellers("n4"), []string{"n2"}) || len(x.tellers("n5")) != 0 || x.size("g") != 2 {
		t.Errorf("%+v", x)
	}
	if got := x.drop("n2"); !slices.Equal(got, []string{"n4"}) || len(x.tellers("n4")) != 0 || x.size("g") != 1 {
		t.Errorf("touched %q, %+v", got, x)
	}
}
