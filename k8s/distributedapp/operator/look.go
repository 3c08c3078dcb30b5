package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/distributedapp"
)

// look reads an app and makes the write that comes next.
func (r *Runner) look(ctx context.Context, k distributedapp.Key) {
	members, changed := r.core.Membership()
	f := distributedapp.Facts{Self: r.o.Core.Self, Config: r.core.Config(), Members: slices.Clone(members), Changed: changed, Stable: r.o.Stable}
	how := r.how
	r.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		step, gone, err := r.step(ctx, k, f, how)
		r.put(func(now time.Time) { r.finish(k, step, gone, err, now) })
	})
}

// step reads, plans and writes.
func (r *Runner) step(ctx context.Context, k distributedapp.Key, f distributedapp.Facts, how settings) (s distributedapp.Step, gone bool, err error) {
	var d DistributedApp
	if err := r.o.Reader.Get(ctx, types.NamespacedName{Namespace: k.Namespace, Name: k.Name}, &d); err != nil {
		return s, apierrors.IsNotFound(err), fmt.Errorf("read: %w", err)
	}
	var pods corev1.PodList
	if err := r.o.Reader.List(ctx, &pods, client.InNamespace(k.Namespace)); err != nil {
		return s, false, fmt.Errorf("list pods: %w", err)
	}
	f.Now, f.App = r.o.Now(), app(&d)
	for i := range pods.Items {
		f.Pods = append(f.Pods, pod(&pods.Items[i]))
	}
	s = distributedapp.Plan(f)
	if s.Write == nil {
		return s, false, nil
	}
	if err := r.write(ctx, &d, *s.Write, how); err != nil {
		return s, false, fmt.Errorf("%s: %w", s.Write.Kind, err)
	}
	r.o.Metrics.writes.WithLabelValues(string(s.Write.Kind)).Inc()
	if s.Write.Kind == distributedapp.WriteStatus && d.Status.ReconciledByPod != "" && d.Status.ReconciledByPod != f.Self {
		r.o.Metrics.moves.Inc()
	}
	r.o.Logger.Info("wrote to the cluster", "write", string(s.Write.Kind), "app", k.String(), "pod", s.Write.Pod)
	return s, false, nil
}

// finish tells the core how a look ended.
func (r *Runner) finish(k distributedapp.Key, s distributedapp.Step, gone bool, err error, now time.Time) {
	shown := r.shown[k]
	delete(r.busy, k)
	delete(r.shown, k)
	o := distributedapp.Settled
	switch {
	case gone && shown: // while the answer was on its way: it may be another one of this name
		delete(r.again, k)
		r.core.Touch(k, now)
		return
	case gone:
		delete(r.again, k)
		r.core.Gone(k)
		return
	case err != nil && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)):
		o = distributedapp.Conflict
		r.o.Metrics.conflicts.Inc()
		r.o.Logger.Debug("another writer was first", "app", k.String(), "err", err)
	case err != nil:
		o = distributedapp.Failed
		if !errors.Is(err, context.Canceled) {
			r.o.Logger.Warn("a look failed; trying again", "app", k.String(), "err", err)
		}
	case s.Write != nil:
		o = distributedapp.Wrote
	}
	r.o.Metrics.looks.WithLabelValues(outcomes[o]).Inc()
	r.core.Finished(k, o, s.Until, now)
	if s.ReadConfig {
		r.core.NeedConfig()
	}
	if r.again[k] {
		delete(r.again, k)
		r.core.Touch(k, now)
	}
}

// write sends one write, with what it rests on (O1, O2, O3).
func (r *Runner) write(ctx context.Context, d *DistributedApp, w distributedapp.Write, how settings) error {
	switch w.Kind {
	case distributedapp.AddFinalizer:
		return r.patch(ctx, w, map[string]any{"finalizers": append(slices.Clone(d.Finalizers), distributedapp.Finalizer)}, nil)
	case distributedapp.RemoveFinalizer:
		left := slices.DeleteFunc(slices.Clone(d.Finalizers), func(f string) bool { return f == distributedapp.Finalizer })
		return r.patch(ctx, w, map[string]any{"finalizers": left}, nil)
	case distributedapp.WriteStatus:
		s := status(w.Status)
		return r.patch(ctx, w, map[string]any{}, &s)
	case distributedapp.CreatePod:
		return r.o.Writer.Create(ctx, newPod(d, w.Pod, how))
	case distributedapp.DeletePod:
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.App.Namespace, Name: w.Pod}}
		uid := types.UID(w.UID)
		return r.o.Writer.Delete(ctx, p, client.Preconditions{UID: &uid, ResourceVersion: &w.Version})
	}
	return fmt.Errorf("%q is no write", w.Kind)
}

func (r *Runner) patch(ctx context.Context, w distributedapp.Write, metadata map[string]any, s *Status) error {
	metadata["uid"], metadata["resourceVersion"] = w.UID, w.Version // O1
	body := map[string]any{"metadata": metadata}
	if s != nil {
		body["status"] = s
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	o := &DistributedApp{ObjectMeta: metav1.ObjectMeta{Namespace: w.App.Namespace, Name: w.App.Name}}
	p := client.RawPatch(types.MergePatchType, text)
	if s != nil {
		return r.o.Writer.Status().Patch(ctx, o, p)
	}
	return r.o.Writer.Patch(ctx, o, p)
}

// newPod is a pod of an app. It asks for what a namespace with the restricted Pod Security allows.
func newPod(d *DistributedApp, name string, how settings) *corev1.Pod {
	yes, no := true, false
	c := corev1.Container{
		Name: "application", Image: d.Spec.ApplicationImage, ImagePullPolicy: how.pull,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	if m := d.Spec.ConfigMapName; m != "" {
		c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: m}}}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: name, Labels: map[string]string{"app": d.Name, ManagedBy: Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: GroupVersion.String(), Kind: kind, Name: d.Name, UID: d.UID, Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{c}, PriorityClassName: how.priority, TerminationGracePeriodSeconds: how.grace, AutomountServiceAccountToken: &no,
		},
	}
}

// fetch reads an app that a message names and this replica does not know.
func (r *Runner) fetch(ctx context.Context, k distributedapp.Key) {
	r.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		var d DistributedApp
		err := r.o.Reader.Get(ctx, types.NamespacedName{Namespace: k.Namespace, Name: k.Name}, &d)
		r.put(func(now time.Time) {
			delete(r.reading, k)
			if err != nil {
				r.core.Forget(k)
				return
			}
			r.core.Observe(app(&d), now)
		})
	})
}

// readConfig reads the configuration, once in a while.
func (r *Runner) readConfig(ctx context.Context) {
	if now := r.o.Now(); r.config || now.Before(r.configAt) {
		return
	} else {
		r.config, r.configAt = true, now.Add(readPause)
	}
	r.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		var m corev1.ConfigMap
		err := r.o.Reader.Get(ctx, types.NamespacedName{Namespace: r.o.Namespace, Name: ConfigMap}, &m)
		r.put(func(now time.Time) {
			r.config = false
			if err != nil {
				r.complain(fmt.Errorf("read: %w", err), now)
				return
			}
			r.configured(&m, now)
		})
	})
}

// configured takes a ConfigMap as it was read, or as the watch shows it.
func (r *Runner) configured(m *corev1.ConfigMap, now time.Time) {
	c, how, err := readConfig(m)
	if err != nil { // O4
		r.o.Metrics.refused.Inc()
		r.complain(err, now)
		return
	}
	r.complaint = ""
	if c.Version > r.core.Config().Version {
		r.how = how
		r.o.Logger.Info("a new configuration is in use", "version", c.Version, "digest", c.Digest)
	}
	r.core.ConfigRead(c, now)
	used := r.core.Config()
	r.state.Store(&used)
	r.o.Metrics.version.Set(float64(used.Version))
}

// complain says once that the configuration cannot be used. What is in use stays.
func (r *Runner) complain(err error, now time.Time) {
	r.core.ConfigRead(r.core.Config(), now) // it was asked for, and there is no other
	if errors.Is(err, context.Canceled) || err.Error() == r.complaint {
		return
	}
	r.complaint = err.Error()
	r.o.Logger.Warn("cannot use the operator's configuration; the one before stays, and without one nothing is done",
		"configmap", r.o.Namespace+"/"+ConfigMap, "err", err)
}
