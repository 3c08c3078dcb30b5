package fencing

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// partLabels are the labels of Nodes of the control plane, whatever their values: those of kubeadm before and after
// 1.20, of RKE, and of distributions that run etcd in their own process.
var partLabels = []string{
	"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/controlplane", "node-role.kubernetes.io/master", "node-role.kubernetes.io/etcd",
}

// partOf returns a Node's part in the control plane. ready reports for each node with a visible member of etcd whether
// that member is Ready.
func partOf(n *corev1.Node, ready map[string]bool, fences []NodeFence) storm.Part {
	p := storm.Part{}
	p.EtcdReady, p.Etcd = ready[n.Name]
	p.In = p.Etcd || slices.ContainsFunc(partLabels, func(label string) bool { _, has := n.Labels[label]; return has })
	for i := range fences {
		p.Claimed = p.Claimed || fences[i].Spec.NodeName == n.Name && claims(&fences[i])
	}
	return p
}

// claims reports whether a NodeFence has cut its node off, or may do so without another write before. A fencing that is
// held up for the control plane may not: it first writes that it is no longer held up, and then looks again.
func claims(f *NodeFence) bool { return touched(f) || f.Status.Held() != storm.ControlPlane }

func touched(f *NodeFence) bool { return f.Status.Isolated || f.Status.Switched }

// gone lists nodes that may be cut off and no longer have a Node: they may have belonged to the control plane.
func gone(fences []NodeFence, nodes map[string]nodefence.Node) (names []string) {
	for i := range fences {
		if name := fences[i].Spec.NodeName; touched(&fences[i]) && !nodes[name].Exists {
			names = append(names, name)
		}
	}
	return names
}

// etcdMembers reports for each node with a member of etcd in a static pod whether that member is Ready. For other
// members only the labels are known. The answer may come from the API server's cache, which is newer than what kubelets
// report.
func (r *Runner) etcdMembers(ctx context.Context) (map[string]bool, error) {
	var list corev1.PodList
	err := r.Reader.List(ctx, &list, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"component": "etcd"},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
	switch {
	case apierrors.IsForbidden(err):
		if r.noEtcd != err.Error() { // log it once
			r.noEtcd = err.Error()
			r.Logger.Warn("members of etcd are not counted before a node of the control plane is fenced, since their pods cannot be listed: apply nodefence.yaml of this version", "err", err)
		}
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list pods of etcd: %w", err)
	}
	r.noEtcd = ""
	ready := map[string]bool{}
	for i := range list.Items {
		p := &list.Items[i]
		is := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		ready[p.Spec.NodeName] = is && p.DeletionTimestamp == nil
	}
	return ready, nil
}
