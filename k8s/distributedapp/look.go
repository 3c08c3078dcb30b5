package distributedapp

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// next looks at the app that is due, and reports whether there may be another.
func (r *Replica) next(ctx context.Context) bool {
	k, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(k)
	within, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if k == configKey {
		var m corev1.ConfigMap
		if err := r.o.Reader.Get(within, types.NamespacedName{Namespace: r.o.Namespace, Name: ConfigMap}, &m); err != nil {
			if ctx.Err() == nil {
				r.complain(fmt.Errorf("read: %w", err))
			}
			r.queue.AddRateLimited(k)
			return true
		}
		r.queue.Forget(k)
		r.configured(&m)
		return true
	}
	s, err := r.look(within, k)
	outcome := settled
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err):
		outcome = conflict
		r.o.Logger.Debug("another writer was first", "app", k.String(), "err", err)
	case err != nil:
		outcome = failed
		if !errors.Is(err, context.Canceled) {
			r.o.Logger.Warn("cannot look at an app; trying again", "app", k.String(), "err", err)
		}
	case s.writes():
		outcome = wrote
	}
	r.o.Metrics.looks.WithLabelValues(outcome).Inc()
	if err != nil {
		r.queue.AddRateLimited(k)
		return true
	}
	r.queue.Forget(k)
	if s.behind {
		r.queue.AddAfter(configKey, readPause)
	}
	if s.writes() {
		r.queue.Add(k)
	} else if s.after > 0 {
		r.queue.AddAfter(k, s.after)
	}
	return true
}

// look reads an app and its pods, and makes the write that comes next.
func (r *Replica) look(ctx context.Context, k types.NamespacedName) (s step, err error) {
	var app DistributedApp
	if err := r.o.Reader.Get(ctx, k, &app); err != nil {
		if apierrors.IsNotFound(err) { // if an app is created again under this name, the watch shows it
			return s, nil
		}
		return s, fmt.Errorf("read: %w", err)
	}
	var pods corev1.PodList
	if err := r.o.Reader.List(ctx, &pods, client.InNamespace(k.Namespace)); err != nil {
		return s, fmt.Errorf("list pods: %w", err)
	}
	with := r.current()
	f := facts{now: time.Now(), self: r.o.Self, app: &app, pods: pods.Items, version: with.version}
	f.members, f.changed = r.gossip.Members()
	if s = plan(f); !s.writes() {
		return s, nil
	}
	if err := r.write(ctx, &app, s, with); err != nil {
		return s, fmt.Errorf("write: %w", err)
	}
	r.o.Logger.Info("wrote this application's objects", "app", k.String(), "created", s.create, "removed", s.remove != nil, "settled", s.status != nil)
	return s, nil
}

// write makes one write, with its precondition (D1).
func (r *Replica) write(ctx context.Context, app *DistributedApp, s step, with config) error {
	asRead := client.MergeFromWithOptions(app, client.MergeFromWithOptimisticLock{})
	switch {
	case s.create != "":
		return r.o.Writer.Create(ctx, newPod(app, s.create, with))
	case s.remove != nil:
		return r.o.Writer.Delete(ctx, s.remove, client.Preconditions{UID: &s.remove.UID, ResourceVersion: &s.remove.ResourceVersion})
	case s.status != nil:
		changed := deepCopy(app, &DistributedApp{})
		changed.Status = *s.status
		return r.o.Writer.Status().Patch(ctx, changed, asRead)
	default:
		return r.o.Writer.Patch(ctx, s.app, asRead)
	}
}

// newPod returns a pod of an app. It only asks for what a namespace with the restricted Pod Security level allows.
func newPod(d *DistributedApp, name string, with config) *corev1.Pod {
	c := corev1.Container{
		Name: "application", Image: d.Spec.ApplicationImage, ImagePullPolicy: with.pull,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), RunAsNonRoot: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	if m := d.Spec.ConfigMapName; m != "" {
		c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: m}}}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: name, Labels: map[string]string{"app": d.Name, ManagedBy: Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, GroupVersion.WithKind(kind))},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{c}, PriorityClassName: with.priority, TerminationGracePeriodSeconds: with.grace, AutomountServiceAccountToken: new(false),
		},
	}
}
