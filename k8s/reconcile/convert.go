package reconcile

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

const (
	mirror            = "kubernetes.io/config.mirror"
	excludeLabel      = "remediation.medik8s.io/exclude-from-remediation"
	autoscalerRemoval = "ToBeDeletedByClusterAutoscaler"
	conventional      = "nodeshutdown" // the taint's value in the documentation of Kubernetes
)

func nodeOf(n *corev1.Node) recovery.Node {
	out := recovery.Node{
		Exists: true, UID: string(n.UID), Version: n.ResourceVersion, Boot: deaths.Boot(n.Status.NodeInfo.BootID),
		Leaving: n.DeletionTimestamp != nil, Note: n.Annotations[recovery.NoteKey],
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Ready, out.Unknown = c.Status == corev1.ConditionTrue, c.Status == corev1.ConditionUnknown
			if !c.LastHeartbeatTime.IsZero() {
				out.Heartbeat = c.LastHeartbeatTime.UTC().Format(time.RFC3339)
			}
		}
	}
	for _, t := range n.Spec.Taints {
		switch {
		case t.Key == autoscalerRemoval:
			out.Leaving = true
		case t.Key == recovery.TaintKey && t.Effect == corev1.TaintEffectNoExecute:
			out.Tainted, out.Taint = true, t.Value
		case t.Key == recovery.TaintKey: // with another effect another program or person has set it, whatever its value is
			out.Tainted, out.Taint = true, string(t.Effect)
		}
	}
	return out
}

func leaseOf(l *coordinationv1.Lease) recovery.Lease {
	out := recovery.Lease{Exists: true, Version: l.ResourceVersion}
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return recovery.Lease{} // the time of the renewal is missing
	}
	out.Renewed, out.Duration = l.Spec.RenewTime.Time, time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second
	return out
}

func (o *Options) podOf(p *corev1.Pod) recovery.Pod {
	_, mirrored := p.Annotations[mirror]
	out := recovery.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Version: p.ResourceVersion,
		Tolerates: mirrored || slices.ContainsFunc(p.Spec.Tolerations, tolerates),
		Excluded:  p.Labels[excludeLabel] == "true" || slices.Contains(o.ExcludeNamespaces, p.Namespace),
		Deleting:  p.DeletionTimestamp != nil,
	}
	out.Forced = out.Deleting && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0
	if o.StatefulSetsOnly && !slices.ContainsFunc(p.OwnerReferences, isStatefulSet) {
		out.Excluded = true
	}
	return out
}

func isStatefulSet(r metav1.OwnerReference) bool {
	return r.Controller != nil && *r.Controller && r.Kind == "StatefulSet" && r.APIVersion == "apps/v1"
}

// tolerates is careful: it also counts a toleration for the value that people use, and one for a limited time.
func tolerates(t corev1.Toleration) bool {
	if t.Key != "" && t.Key != recovery.TaintKey || t.Effect != "" && t.Effect != corev1.TaintEffectNoExecute {
		return false
	}
	if t.Operator == corev1.TolerationOpExists {
		return true
	}
	return t.Key == recovery.TaintKey && (t.Value == conventional || len(t.Value) > 16)
}

// beliefOf returns a Node as a reporter. An annotation and a report together are one reporter (deaths.Words).
func beliefOf(n *corev1.Node, told *deaths.Report, groupLabel string, l recovery.Lease, now time.Time) belief.Node {
	list, full := deaths.Words(n.Annotations[deaths.Annotation], told, now)
	boot := deaths.Boot(n.Status.NodeInfo.BootID)
	var values []string
	for _, t := range n.Spec.Taints {
		if t.Key == recovery.TaintKey {
			values = append(values, t.Value)
		}
	}
	return belief.Node{
		Name: n.Name, Group: n.Labels[groupLabel], Boot: boot, Fresh: l.Fresh(now), Deaths: list, Full: full,
		Ended: recovery.WordOf(boot, n.Annotations[recovery.NoteKey], values, values) != recovery.Word{},
	}
}
