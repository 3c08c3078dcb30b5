package fencing

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

const (
	monitorLabel     = "fencing-agent.io/monitor"
	deviceAnnotation = "fencing-agent.io/device"
	// monitorPause is the pause between two reads of the results of the Jobs.
	monitorPause = 30 * time.Second
)

// monitor checks from time to time whether each device answers, by a Job that switches nothing. So a device that does
// not answer is known before it is needed. Nothing depends on the answer: a silent device may be the only one there is.
//
// Replicas need no agreement for this: the name of a Job follows from the device and the time.
func (r *Runner) monitor(ctx context.Context, c *fenceconfig.Config) error {
	now := r.Now()
	if r.monitorFrom.IsZero() {
		r.monitorFrom = now
	}
	if c.Cluster.Monitor <= 0 {
		r.Metrics.reachable.Reset()
		return nil
	}
	if now.Before(r.monitorNext) {
		return nil
	}
	r.monitorNext = now.Add(monitorPause)
	var jobs batchv1.JobList
	if err := r.Reader.List(ctx, &jobs, client.InNamespace(r.Namespace), client.MatchingLabels{monitorLabel: "true"}); err != nil {
		return fmt.Errorf("list Jobs that ask devices: %w", err)
	}
	var pods corev1.PodList
	if len(jobs.Items) > 0 {
		if err := r.Reader.List(ctx, &pods, client.InNamespace(r.Namespace), client.MatchingLabels{monitorLabel: "true"}); err != nil {
			return fmt.Errorf("list pods that ask devices: %w", err)
		}
	}
	there := map[string]bool{}
	for i := range jobs.Items {
		there[jobs.Items[i].Name] = true
	}
	devices := c.Devices()
	r.answers(devices, jobs.Items, pods.Items)
	for _, d := range devices {
		name, began := monitorName(d, now, c.Cluster.Monitor)
		// After a start devices wait for their turn: checks of all devices at once would be a storm of pods.
		if there[name] || began.Before(r.monitorFrom) {
			continue
		}
		if err := r.Writer.Create(ctx, r.monitorJob(name, d, c.Cluster, now)); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("ask %s whether it answers: %w", d.Name, err)
		}
	}
	return nil
}

// clear deletes the Jobs that still check a device when a node has to be fenced: some boards have only one session.
// This replica creates no more of them before all nodes are Ready again. Another replica clears its own.
func (r *Runner) clear(ctx context.Context) error {
	if r.cleared {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var jobs batchv1.JobList
	if err := r.Reader.List(ctx, &jobs, client.InNamespace(r.Namespace), client.MatchingLabels{monitorLabel: "true"}); err != nil {
		return fmt.Errorf("list Jobs that ask devices: %w", err)
	}
	var failed []error
	for i := range jobs.Items { // a Job that cannot be deleted, as when a webhook refuses it, keeps no other device busy
		j := &jobs.Items[i]
		if jobOf(j, nil).Finished {
			continue
		}
		err := r.Writer.Delete(ctx, j, client.PropagationPolicy(metav1.DeletePropagationBackground),
			client.Preconditions{UID: &j.UID, ResourceVersion: &j.ResourceVersion})
		if err != nil && !apierrors.IsNotFound(err) { // this includes a conflict: the Job is read again
			failed = append(failed, fmt.Errorf("delete Job %s, which asks a device: %w", j.Name, err))
		}
	}
	r.cleared = len(failed) == 0
	return errors.Join(failed...)
}

// monitorName returns the name of the Job that checks a device in the present interval, and the start of that interval.
// The intervals of different devices begin at different times.
func monitorName(d fenceconfig.Device, now time.Time, every time.Duration) (name string, began time.Time) {
	h := fnv.New64a()
	fmt.Fprint(h, d.Name)
	seconds := int64(every / time.Second)
	shift := int64(h.Sum64() % uint64(seconds))
	turn := (now.Unix() + shift) / seconds
	return fmt.Sprintf("monitor-%016x-%d", h.Sum64(), turn), time.Unix(turn*seconds-shift, 0)
}

// monitorJob returns a Job like those that fence, with another action; it is not suspended, and belongs to no
// NodeFence.
func (r *Runner) monitorJob(name string, d fenceconfig.Device, c fenceconfig.Cluster, now time.Time) *batchv1.Job {
	j := r.job(nodefence.Action{
		Name: name, Method: d.Method, Role: nodefence.Check, Timeout: c.JobTimeout, NotAfter: now.Add(c.JobTimeout).Truncate(time.Second),
	}, &NodeFence{Spec: nodefence.Spec{NodeName: d.Node}})
	labels := map[string]string{monitorLabel: "true", "app.kubernetes.io/name": executorAccount}
	j.Labels, j.Spec.Template.Labels, j.OwnerReferences = labels, labels, nil
	j.Annotations[deviceAnnotation] = d.Name
	j.Spec.Suspend, j.Spec.TTLSecondsAfterFinished = ptr(false), ptr(int32(2*c.Monitor/time.Second))
	j.Spec.Template.Spec.PriorityClassName = ""
	args := j.Spec.Template.Spec.Containers[0].Args
	args[len(args)-1] = "monitor" // instead of check
	return j
}

// answers reports for each device the result of the last Job that has ended.
func (r *Runner) answers(devices []fenceconfig.Device, jobs []batchv1.Job, pods []corev1.Pod) {
	last := map[string]*batchv1.Job{}
	for i := range jobs {
		j := &jobs[i]
		name := j.Annotations[deviceAnnotation]
		if o := jobOf(j, nil); o.Finished && (last[name] == nil || last[name].CreationTimestamp.Before(&j.CreationTimestamp)) {
			last[name] = j
		}
	}
	r.Metrics.reachable.Reset()
	if r.monitored == nil {
		r.monitored = map[string]types.UID{}
	}
	for _, d := range devices {
		j := last[d.Name]
		if j == nil {
			continue
		}
		o := jobOf(j, pods)
		value := 0.0
		if o.Succeeded {
			value = 1
		}
		r.Metrics.reachable.WithLabelValues(d.Name).Set(value)
		if r.monitored[d.Name] != j.UID && !o.Succeeded {
			r.Logger.Warn("a device that fences nodes does not answer: it may fail to fence a node when that is needed", "device", d.Name, "node", d.Node, "method", d.Method.Name, "says", o.Message)
		}
		r.monitored[d.Name] = j.UID
	}
}
