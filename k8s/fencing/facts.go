package fencing

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

const (
	ownerLabel         = "fencing-agent.io/nodefence-uid"
	notAfterAnnotation = "fencing-agent.io/not-after"
	autoscalerRemoval  = "ToBeDeletedByClusterAutoscaler"
	// usageCode is the exit code of an executor that does not know the command; it then prints nothing.
	usageCode = 2
)

// keeps reports whether an annotation asks to leave the node alone: because a person wants it, or during an update.
// These annotations are the ones that disarm the agents' watchdog by default.
func keeps(annotation string) bool {
	switch annotation {
	case "fencing-agent.io/disable", "node-manager.deckhouse.io/fencing-disable", "update.node.deckhouse.io/approved", "update.node.deckhouse.io/disruption-approved":
		return true
	default:
		return false
	}
}

// WordOf reports whether the death of the boot that a Node shows is in force, or in dispute ([recovery.WordOf]).
func WordOf(n *corev1.Node) recovery.Word {
	var values, others []string
	for _, t := range n.Spec.Taints {
		switch {
		case t.Key != recovery.TaintKey:
		case t.Effect == corev1.TaintEffectNoExecute:
			values = append(values, t.Value)
		default:
			others = append(others, t.Value)
		}
	}
	return recovery.WordOf(deaths.Boot(n.Status.NodeInfo.BootID), n.Annotations[recovery.NoteKey], values, others)
}

// nodeOf returns the part of a Node that matters here.
func nodeOf(n *corev1.Node) nodefence.Node {
	word := WordOf(n)
	out := nodefence.Node{
		Exists: true, UID: string(n.UID), Boot: deaths.Boot(n.Status.NodeInfo.BootID), Kept: n.DeletionTimestamp != nil,
		Fenced: word.Fenced, Disputed: word.Disputed,
	}
	for key := range n.Annotations {
		out.Kept = out.Kept || keeps(key)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Ready, out.NotReadySince = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
			out.Heartbeat = c.LastHeartbeatTime.UTC().Format(time.RFC3339)
		}
	}
	for _, t := range n.Spec.Taints {
		out.Kept = out.Kept || t.Key == autoscalerRemoval
	}
	return out
}

// facts reads everything that a decision about one node needs, in this order: the NodeFence, its Jobs, the Node.
func (r *Runner) facts(ctx context.Context, node string, c *fenceconfig.Config, survey *storm.Survey) (nodefence.Facts, *NodeFence, error) {
	f := nodefence.Facts{Config: c.Nodes[node], Cluster: c.Cluster}
	var object NodeFence
	err := r.Reader.Get(ctx, types.NamespacedName{Name: NameOf(node)}, &object)
	if client.IgnoreNotFound(err) != nil {
		return f, nil, fmt.Errorf("read NodeFence: %w", err)
	}
	if err == nil {
		f.Object = &nodefence.Object{
			UID: string(object.UID), Version: object.ResourceVersion, Deleting: object.DeletionTimestamp != nil, Spec: object.Spec, Status: object.Status,
		}
		if f.Jobs, err = r.jobs(ctx, string(object.UID)); err != nil {
			return f, nil, err
		}
	}
	var n corev1.Node
	switch err := r.Reader.Get(ctx, types.NamespacedName{Name: node}, &n); {
	case err == nil:
		f.Node = nodeOf(&n)
		f.Node.Seen = r.Seen(node, f.Node.Boot)
	case client.IgnoreNotFound(err) != nil:
		return f, nil, fmt.Errorf("read Node: %w", err)
	}
	if f.Object == nil {
		f.Wish, f.First = r.wish(ctx, r.wished[node], f.Node)
	}
	f.Now = r.Now()
	if f.Object != nil {
		f.Returning = r.returning(f.Object, f.Now)
	}
	f.Crash = r.Crashes.judge(node, f.Node, f.Now)
	if f.Crashed() {
		survey.Proven(node) // there may be no NodeFence yet that could record it
	}
	// The NodeFence that claims this node is read first, and then what others have begun (storm.ControlPlane).
	if f.Object != nil && survey.InControlPlane(node) {
		if survey, err = r.again(ctx, c); err != nil {
			return f, nil, err
		}
	}
	f.Policy = survey.Allow(node, object.Annotations[nodefence.AnywayAnnotation])
	// If the Lease cannot be read, the kubelet may be alive: no storage is given back, and everything else continues.
	if f.Node.Silent, err = r.silent(ctx, node, f.Now); err != nil && r.noLease != err.Error() {
		r.noLease = err.Error() // an older role does not allow it: log it once
		r.Logger.Warn("storage is not given back before the node is in another boot, since its Lease cannot be read: apply nodefence.yaml of this version", "node", node, "err", err)
	}
	return f, &object, nil
}

// returning returns how long this replica has seen that the storages of a NodeFence are about to be given back. A
// replica that has just started begins at zero.
func (r *Runner) returning(o *nodefence.Object, now time.Time) time.Duration {
	text := o.Status.Returns()
	if text == "" {
		delete(r.returns, o.Spec.NodeName)
		return 0
	}
	return r.returns.For(o.Spec.NodeName, o.UID+text, now)
}

// silent reports whether the kubelet has not renewed its Lease for its whole duration. It only uses this replica's
// clock.
func (r *Runner) silent(ctx context.Context, node string, now time.Time) (bool, error) {
	l, err := ReadLease(ctx, r.Reader, node)
	return err == nil && r.leases.Silent(node, l, now), err
}

// jobs returns the Jobs of one NodeFence.
func (r *Runner) jobs(ctx context.Context, uid string) ([]nodefence.Job, error) {
	var list batchv1.JobList
	if err := r.Reader.List(ctx, &list, client.InNamespace(r.Namespace), client.MatchingLabels{ownerLabel: uid}); err != nil {
		return nil, fmt.Errorf("list Jobs: %w", err)
	}
	var pods corev1.PodList
	if len(list.Items) > 0 {
		if err := r.Reader.List(ctx, &pods, client.InNamespace(r.Namespace), client.MatchingLabels{ownerLabel: uid}); err != nil {
			return nil, fmt.Errorf("list pods of Jobs: %w", err)
		}
	}
	var out []nodefence.Job
	for i := range list.Items {
		out = append(out, jobOf(&list.Items[i], pods.Items))
	}
	return out, nil
}

// jobOf converts one Job, with the result of its executor.
func jobOf(j *batchv1.Job, pods []corev1.Pod) nodefence.Job {
	out := nodefence.Job{Name: j.Name, UID: string(j.UID), Version: j.ResourceVersion, Suspended: j.Spec.Suspend != nil && *j.Spec.Suspend}
	out.NotAfter, _ = time.Parse(time.RFC3339, j.Annotations[notAfterAnnotation]) // if it cannot be read, it is too late for the Job
	for _, c := range j.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			out.Finished, out.Succeeded, out.Message = true, c.Type == batchv1.JobComplete, c.Message
		}
	}
	for i := range pods {
		p := &pods[i]
		if !metav1.IsControlledBy(p, j) { // the pod belongs to another object, or to an earlier Job with this name
			continue
		}
		out.Node = p.Spec.NodeName
		for _, s := range p.Status.ContainerStatuses {
			if t := s.State.Terminated; t != nil && s.Name == executorContainer {
				out.Reported = true
				out.Unknown = t.ExitCode == usageCode && t.Message == ""
				out.Message, out.Off, out.Barrier = said(t.Message, t.ExitCode)
			}
		}
	}
	return out
}

// said returns the message that an executor wrote at its end, for people, and what it confirms: that the plug is off,
// and that each logical unit was reset after that.
func said(text string, code int32) (message string, off, barrier bool) {
	var r struct {
		OK, Barrier     bool
		Status, Message string
	}
	err := json.Unmarshal([]byte(text), &r)
	off = err == nil && code == 0 && r.OK && r.Status == fenceconfig.Off
	barrier = off && r.Barrier
	switch {
	case err == nil && r.Message != "":
		return r.Message, off, barrier
	case err == nil && r.Status != "":
		return "the plug is " + r.Status, off, barrier
	default:
		return fmt.Sprintf("exit code %d", code), off, barrier
	}
}
