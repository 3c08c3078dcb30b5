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
	// provisionerBeta is what clusters before 1.23 have written.
	provisionerBeta = "volume.beta.kubernetes.io/storage-provisioner"
	mirror          = "kubernetes.io/config.mirror"
)

// failure counts a request that failed. One for what is not there has not.
func (r *Runner) failure(err error) error {
	if err = client.IgnoreNotFound(err); err != nil {
		r.o.Metrics.failures.WithLabelValues(apiKubernetes).Inc()
	}
	return err
}

// limited makes one request to Kubernetes, and counts it if it fails. One that hangs is given up, so that what is left of
// the time serves another attempt.
func (r *Runner) limited(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return r.failure(request(ctx))
}

// get reads one object. An error that it is not there is none: found is false then.
func (r *Runner) get(ctx context.Context, key types.NamespacedName, into client.Object) (found bool, err error) {
	err = r.limited(ctx, func(ctx context.Context) error {
		err := r.o.Reader.Get(ctx, key, into)
		found = err == nil
		return err
	})
	return found, err
}

// node is nil for one that does not exist.
func (r *Runner) node(ctx context.Context, name string) (*corev1.Node, error) {
	var n corev1.Node
	if found, err := r.get(ctx, types.NamespacedName{Name: name}, &n); !found {
		return nil, err
	}
	return &n, nil
}

// off reports whether a Node is known to be off: somebody has set the taint out-of-service. One of the recovery says it
// for one boot, as long as nothing disputes that; a Node that is Ready in that boot does so as well.
func off(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == recovery.TaintKey && !recovery.Ours(t.Value) { // a person's
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

// read finds the pods of the node, their volumes, and what is attached there. The attachments are read first: one that
// is made later is not of the pods that were read.
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

// podOf reads what a pod uses. The health of volumes is asked for where it matters, of pods that have opted in.
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
		// The volume itself is believed before an annotation that people may write.
		if out.Driver = ""; pv.Spec.CSI != nil {
			out.Driver = pv.Spec.CSI.Driver
		}
		// A volume that is tied to this node's disk is no business of a storage that moves volumes.
		out.Local = pv.Spec.HostPath != nil
	}
	if !ask || pv.Spec.CSI == nil || out.Driver != f.o.Rules.Driver {
		return out, nil
	}
	out.Health, out.Reason = f.health(ctx, pv.Spec.CSI.VolumeHandle)
	return out, nil
}

// conditions are what the controller plugin of a CSI driver says is wrong with the volume of a claim: Kubernetes 1.37 and
// later, with the feature gate CSIVolumeHealth. What the kubelet says of the pod's volumes is left alone, for it is the
// kubelet of the node in question.
func conditions(claim *corev1.PersistentVolumeClaim) (out []storagefence.Condition) {
	if claim.Status.HealthStatus == nil {
		return nil
	}
	for _, c := range claim.Status.HealthStatus.HealthConditions {
		out = append(out, storagefence.Condition{Status: string(c.Status), Reason: c.Reason})
	}
	return out
}

// health asks for that of one volume. One that the storage says nothing about keeps its own pod, and no other: the attempt
// has failed then, and is made again.
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

// local reports whether a volume stays behind on the node, and a replacement gets one of its own.
func local(v *corev1.Volume) bool {
	return v.EmptyDir != nil || v.HostPath != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil || v.Image != nil || v.CSI != nil
}

// setTaint sets the taint of this program, or takes it off, on the very Node that was read.
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
