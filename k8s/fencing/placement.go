package fencing

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

const (
	// mostTolerated is the greatest number of taints that an executor tolerates; mostTainted is that of the nodes that
	// it avoids.
	mostTolerated = 64
	mostTainted   = 32
)

// neverTolerated lists taints of nodes on which an executor would not start, or not end. An executor that tolerated
// every taint would start on the next dead node, which has these.
var neverTolerated = []string{
	corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeNetworkUnavailable, corev1.TaintNodeOutOfService,
	"node.cloudprovider.kubernetes.io/uninitialized", "node.cloudprovider.kubernetes.io/shutdown", recovery.TaintKey, autoscalerRemoval,
}

// always lists the tolerations for taints that a node may get a moment later: those of the control plane, and of a node
// that is cordoned.
var always = []corev1.Toleration{
	{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

// places records where executors may run. In a cluster in which each node is tainted or cordoned, one has to run
// anyway.
type places struct {
	tolerations []corev1.Toleration
	tainted     []string // nodes with a taint other than that of the control plane: other nodes are preferred
}

// add records a Node.
func (p *places) add(n *corev1.Node, ready bool) {
	if !ready {
		return
	}
	tainted := n.Spec.Unschedulable
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectPreferNoSchedule || slices.Contains(neverTolerated, t.Key) {
			continue
		}
		tolerated := corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpExists, Effect: t.Effect}
		tainted = tainted || tolerated != always[0]
		if !slices.Contains(always, tolerated) && !slices.Contains(p.tolerations, tolerated) {
			p.tolerations = append(p.tolerations, tolerated)
		}
	}
	if tainted {
		p.tainted = append(p.tainted, n.Name)
	}
}

// tolerate allows a pod to run on the tainted nodes, but prefers other nodes.
func (p *places) tolerate(pod *corev1.PodSpec) {
	found := slices.SortedFunc(slices.Values(p.tolerations), func(a, b corev1.Toleration) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect))
	})
	pod.Tolerations = append(slices.Clone(always), found[:min(len(found), mostTolerated)]...)
	if nodes := p.tainted[:min(len(p.tainted), mostTainted)]; len(nodes) > 0 {
		a := pod.Affinity.NodeAffinity
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{Weight: 50, Preference: notOn(nodes...)})
	}
}

// resources returns what an executor requests of its node, so that no quota refuses it.
func resources() corev1.ResourceRequirements {
	of := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return corev1.ResourceRequirements{
		Requests: of(fenceconfig.ExecutorCPU, fenceconfig.ExecutorMemory), Limits: of(fenceconfig.ExecutorMostCPU, fenceconfig.ExecutorMemory),
	}
}
