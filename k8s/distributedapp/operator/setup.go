package operator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/fencing-agent/fencing-agent/k8s/distributedapp"
)

// Setup adds the replica to a manager: its watches and its loop.
func (r *Runner) Setup(ctx context.Context, mgr manager.Manager) error {
	for _, w := range []struct {
		of   client.Object
		seen func(o any)
		gone func(o any)
	}{
		{&DistributedApp{}, r.seeApp, r.loseApp},
		{&corev1.Pod{}, r.seePod, r.seePod},
		{&corev1.ConfigMap{}, r.seeConfig, func(any) {}}, // one that is deleted stays in use
	} {
		informer, err := mgr.GetCache().GetInformer(ctx, w.of)
		if err != nil {
			return fmt.Errorf("watch %T: %w", w.of, err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: w.seen, UpdateFunc: func(_, o any) { w.seen(o) },
			DeleteFunc: func(o any) {
				if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
					o = last.Obj
				}
				w.gone(o)
			},
		})
		if err != nil {
			return fmt.Errorf("watch %T: %w", w.of, err)
		}
	}
	return mgr.Add(r)
}

func (r *Runner) seeApp(o any) {
	if d, ok := o.(*DistributedApp); ok {
		a := app(d)
		r.put(func(now time.Time) {
			if r.busy[a.Key] {
				r.shown[a.Key] = true
			}
			r.core.Observe(a, now)
		})
	}
}

func (r *Runner) loseApp(o any) {
	if d, ok := o.(*DistributedApp); ok {
		r.put(func(time.Time) { r.core.Gone(distributedapp.Key{Namespace: d.Namespace, Name: d.Name}) })
	}
}

func (r *Runner) seePod(o any) {
	if p, ok := o.(*corev1.Pod); ok {
		if k, ok := ownerOf(p); ok {
			r.put(func(now time.Time) { r.core.Touch(k, now) })
		}
	}
}

func (r *Runner) seeConfig(o any) {
	if m, ok := o.(*corev1.ConfigMap); ok && m.Name == ConfigMap && m.Namespace == r.o.Namespace {
		r.put(func(now time.Time) { r.configured(m, now) })
	}
}
