package storagewatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/fencing"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
	"github.com/fencing-agent/fencing-agent/k8s/storagefence"
)

const (
	provisioner = "volume.kubernetes.io/storage-provisioner"
	// provisionerBeta is the annotation in clusters before 1.23.
	provisionerBeta = "volume.beta.kubernetes.io/storage-provisioner"
	mirror          = "kubernetes.io/config.mirror"
)

// failure counts a failed request. A "not found" is not a failure.
func (r *Runner) failure(err error) error {
	if err = client.IgnoreNotFound(err); err != nil {
		r.o.Metrics.failures.WithLabelValues(apiKubernetes).Inc()
	}
	return err
}

// limited makes one request to Kubernetes, and counts it if it fails. A request that hangs is cancelled, so that time
// is left for another attempt.
func (r *Runner) limited(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return r.failure(request(ctx))
}

// get reads one object. If it does not exist, found is false and there is no error.
func (r *Runner) get(ctx context.Context, key types.NamespacedName, into client.Object) (found bool, err error) {
	err = r.limited(ctx, func(ctx context.Context) error {
		err := r.o.Reader.Get(ctx, key, into)
		found = err == nil
		return err
	})
	return found, err
}

// node returns nil if the Node does not exist.
func (r *Runner) node(ctx context.Context, name string) (*corev1.Node, error) {
	var n corev1.Node
	if found, err := r.get(ctx, types.NamespacedName{Name: name}, &n); !found {
		return nil, err
	}
	return &n, nil
}

// off reports whether a Node is known to be off, because somebody has set the taint out-of-service. The recovery's own
// taint counts for one boot only, as long as that is not in dispute; it counts as disputed if the Node is Ready in that
// boot.
func off(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == recovery.TaintKey && !recovery.Ours(t.Value) { // set by a person
			return true
		}
	}
	return fencing.WordOf(n).Fenced != "" && !ready(n)
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func tainted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == OfflineTaint })
}

// read finds the pods of the node, their volumes, and what is attached there. It reads the attachments first, so that
// an attachment that is created later is never taken for one of these pods.
func (f *fence) read(ctx context.Context) error {
	if f.o.Cleanup == CleanupDelete && !f.off {
		list := storagev1.VolumeAttachmentList{}
		if err := f.limited(ctx, func(ctx context.Context) error { return f.o.Reader.List(ctx, &list) }); err != nil {
			return fmt.Errorf("list VolumeAttachments: %w", err)
		}
		f.attachments = list.Items
	}
	var pods corev1.PodList
	err := f.limited(ctx, func(ctx context.Context) error {
		return f.o.Reader.List(ctx, &pods, client.MatchingFields{"spec.nodeName": f.node})
	})
	if err != nil {
		return fmt.Errorf("list pods of the node: %w", err)
	}
	f.pods = pods.Items
	for i := range f.pods {
		p, err := f.podOf(ctx, &f.pods[i])
		if err != nil {
			return fmt.Errorf("pod %s/%s: %w", f.pods[i].Namespace, f.pods[i].Name, err)
		}
		f.judged = append(f.judged, p)
	}
	return nil
}

// podOf reads what a pod uses. The health of volumes is only read if it matters: for pods that have opted in.
func (f *fence) podOf(ctx context.Context, p *corev1.Pod) (storagefence.Pod, error) {
	out := storagefence.Pod{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels,
		Ended: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed}
	_, isMirror := p.Annotations[mirror]
	out.Pinned = isMirror || slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Controller != nil && *o.Controller && o.Kind == "DaemonSet"
	})
	on, _ := f.o.Rules.OptsIn(p.Labels)
	for i := range p.Spec.Volumes {
		v, err := f.volumeOf(ctx, p, &p.Spec.Volumes[i], on && !out.Pinned && !out.Ended)
		if err != nil {
			return out, err
		}
		out.Volumes = append(out.Volumes, v)
	}
	return out, nil
}

func (f *fence) volumeOf(ctx context.Context, p *corev1.Pod, v *corev1.Volume, ask bool) (storagefence.Volume, error) {
	out := storagefence.Volume{Name: v.Name}
	switch {
	case v.PersistentVolumeClaim != nil:
		out.Claim = v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		out.Claim = p.Name + "-" + v.Name
	default:
		out.Local = local(v)
		return out, nil
	}
	var claim corev1.PersistentVolumeClaim
	if found, err := f.get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: out.Claim}, &claim); !found {
		out.Reason = "its claim " + out.Claim + " does not exist"
		return out, err
	}
	out.PV, out.Conditions = claim.Spec.VolumeName, conditions(&claim)
	if out.Driver = claim.Annotations[provisioner]; out.Driver == "" {
		out.Driver = claim.Annotations[provisionerBeta]
	}
	var pv corev1.PersistentVolume
	if out.PV != "" && (ask || out.Driver == "") {
		if found, err := f.get(ctx, types.NamespacedName{Name: out.PV}, &pv); !found {
			out.Reason = "its PersistentVolume " + out.PV + " does not exist"
			return out, err
		}
		// The volume itself is more reliable than an annotation, which people may write.
		if out.Driver = ""; pv.Spec.CSI != nil {
			out.Driver = pv.Spec.CSI.Driver
		}
		// A volume on this node's disk does not matter to a storage that moves volumes.
		out.Local = pv.Spec.HostPath != nil
	}
	if !ask || pv.Spec.CSI == nil || out.Driver != f.o.Rules.Driver {
		return out, nil
	}
	out.Health, out.Reason = f.health(ctx, pv.Spec.CSI.VolumeHandle)
	return out, nil
}

// conditions returns the problems of a claim's volume that the controller plugin of a CSI driver reports (Kubernetes
// 1.37 and later, with the feature gate CSIVolumeHealth). The kubelet's reports about the pod's volumes are ignored,
// since it is the kubelet of the node in question.
func conditions(claim *corev1.PersistentVolumeClaim) (out []storagefence.Condition) {
	if claim.Status.HealthStatus == nil {
		return nil
	}
	for _, c := range claim.Status.HealthStatus.HealthConditions {
		out = append(out, storagefence.Condition{Status: string(c.Status), Reason: c.Reason})
	}
	return out
}

// health asks for the health of one volume. If the storage reports nothing about it, only its own pod stays: this
// attempt has then failed, and is repeated.
func (f *fence) health(ctx context.Context, handle string) (storagefence.Health, string) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	h, reason, err := f.o.Provider.Volume(ctx, handle)
	if err != nil {
		f.o.Metrics.failures.WithLabelValues(apiStorage).Inc()
		f.unread = append(f.unread, err)
		return storagefence.Unknown, err.Error()
	}
	return h, reason
}

// local reports whether a volume stays on the node, and a replacement gets a new one.
func local(v *corev1.Volume) bool {
	return v.EmptyDir != nil || v.HostPath != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil || v.Image != nil || v.CSI != nil
}

// setTaint sets or removes the taint of this program, on the version of the Node that was read.
func (r *Runner) setTaint(ctx context.Context, n *corev1.Node, on bool) error {
	taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Key == OfflineTaint })
	if on {
		taints = append(taints, corev1.Taint{Key: OfflineTaint, Effect: corev1.TaintEffectNoSchedule})
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion},
		"spec":     map[string]any{"taints": taints},
	})
	if err != nil {
		return err
	}
	return r.limited(ctx, func(ctx context.Context) error {
		return r.o.Writer.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, client.RawPatch(types.MergePatchType, body))
	})
}

func (r *Runner) deletePod(ctx context.Context, p *corev1.Pod) error {
	uid, version := p.UID, p.ResourceVersion
	return r.limited(ctx, func(ctx context.Context) error {
		return r.o.Writer.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}},
			client.GracePeriodSeconds(0), client.Preconditions{UID: &uid, ResourceVersion: &version})
	})
}

func (r *Runner) deleteAttachment(ctx context.Context, a *storagev1.VolumeAttachment) error {
	uid, version := a.UID, a.ResourceVersion
	return r.limited(ctx, func(ctx context.Context) error {
		return r.o.Writer.Delete(ctx, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: a.Name}},
			client.Preconditions{UID: &uid, ResourceVersion: &version})
	})
}
