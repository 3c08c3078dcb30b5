package fencing

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

// fits reports whether a pod may run on a node, according to the scheduler's filters for taints and required
// affinities.
func fits(pod *corev1.PodSpec, n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(pod.Tolerations, func(o corev1.Toleration) bool {
			return (o.Key == "" || o.Key == t.Key) && (o.Effect == "" || o.Effect == t.Effect) && o.Operator == corev1.TolerationOpExists
		}) {
			return false
		}
	}
	return !slices.ContainsFunc(pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields, func(r corev1.NodeSelectorRequirement) bool {
		return r.Operator == corev1.NodeSelectorOpNotIn && r.Values[0] == n.Name
	})
}

// In a cluster in which each node is tainted or cordoned, an executor still starts: not on the node that is fenced, nor
// on a dead one.
func TestExecutorsRunWhereEachNodeIsTainted(t *testing.T) {
	s := newStage(t)
	taint := func(name string, taints ...corev1.Taint) {
		var n corev1.Node
		if err := s.Get(t.Context(), clientKey(name), &n); err != nil {
			t.Fatal(err)
		}
		n.Spec.Taints = taints
		s.put(&n)
	}
	taint("n1", corev1.Taint{Key: "dedicated", Value: "storage", Effect: corev1.TaintEffectNoSchedule}, corev1.Taint{Key: "storage", Effect: corev1.TaintEffectNoExecute})
	taint("n2", corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	taint("n3", corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule})
	dead := []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
	s.node("n5", false, "0", s.now)
	taint("n5", dead...)
	taint("n4", append(slices.Clone(dead), corev1.Taint{Key: "only-here", Effect: corev1.TaintEffectNoSchedule})...)
	s.node("n6", true, "0", s.now) // it answers again, and its death is not withdrawn yet
	taint("n6", corev1.Taint{Key: recovery.TaintKey, Effect: corev1.TaintEffectNoExecute})
	s.configure("trigger_after=0", "max_unhealthy_percent=100")
	s.round()
	pod := s.r.job(nodefence.Action{Role: nodefence.Main}, &NodeFence{Spec: nodefence.Spec{NodeName: "n4"}}).Spec.Template.Spec
	for name, want := range map[string]bool{"n1": true, "n2": true, "n3": true, "n4": false, "n5": false, "n6": false} {
		var n corev1.Node
		if err := s.Get(t.Context(), clientKey(name), &n); err != nil {
			t.Fatal(err)
		}
		if fits(&pod, &n) != want {
			t.Errorf("%s: it runs there: %v; tolerations %v", name, !want, pod.Tolerations)
		}
	}
	preferred := pod.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(preferred) != 1 || len(preferred[0].Preference.MatchFields) != 2 {
		t.Errorf("nodes without taints are not better: %+v", preferred)
	}
	c := pod.Containers[0].Resources
	if c.Requests.Cpu().IsZero() || c.Requests.Memory().IsZero() || c.Limits.Cpu().IsZero() || c.Limits.Memory().Cmp(*c.Requests.Memory()) != 0 {
		t.Errorf("a quota refuses it: %+v", c)
	}
}
