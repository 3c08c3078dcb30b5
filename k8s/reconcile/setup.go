package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

const (
	// sweepEvery is the interval at which all Nodes are read for taints without a report of a death: metadata does not
	// show taints.
	sweepEvery = 10 * time.Minute
	pageSize   = 200
)

// NodeMetadata is the type of the watched objects.
func NodeMetadata() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	return m
}

// Setup adds the controller to a manager: the watch of Nodes, the queue and the sweep. Each replica has all three.
func (r *Reconciler) Setup(mgr manager.Manager) error {
	everywhere := false
	c, err := controller.New("recovery", mgr, controller.Options{
		Reconciler: r, MaxConcurrentReconciles: workers, NeedLeaderElection: &everywhere,
	})
	if err != nil {
		return fmt.Errorf("set up the controller: %w", err)
	}
	if err := c.Watch(source.Kind(mgr.GetCache(), client.Object(NodeMetadata()), handler.EventHandler(r.handler()))); err != nil {
		return fmt.Errorf("watch Nodes: %w", err)
	}
	if r.options.Reported != nil {
		if err := c.Watch(source.Kind(mgr.GetCache(), client.Object(&corev1.ConfigMap{}), handler.EventHandler(r.reports()))); err != nil {
			return fmt.Errorf("watch what agents report about dead nodes: %w", err)
		}
	}
	found := make(chan event.GenericEvent)
	if err := c.Watch(source.Channel(found, &handler.EnqueueRequestForObject{})); err != nil {
		return fmt.Errorf("watch for taints: %w", err)
	}
	if err := c.Watch(source.Channel(r.proven, &handler.EnqueueRequestForObject{})); err != nil {
		return fmt.Errorf("watch for proofs by power: %w", err)
	}
	return mgr.Add(&sweeper{r, found})
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// handler keeps the index up to date. It queues the Nodes that a change concerns: the changed Node, and the Nodes that
// it calls dead.
func (r *Reconciler) handler() handler.Funcs {
	put := func(o client.Object, q queue) {
		list, err := deaths.Decode(o.GetAnnotations()[deaths.Annotation])
		if _, there := o.GetAnnotations()[deaths.Annotation]; there && err != nil {
			r.options.Logger.Warn("cannot read the deaths that a Node reports", "node", o.GetName(), "err", err)
		}
		r.mu.Lock()
		touched := append(r.index.put(o.GetName(), o.GetLabels()[r.options.GroupLabel], list), o.GetName())
		r.mu.Unlock()
		enqueue(q, touched)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { put(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { put(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			r.mu.Lock()
			touched := append(r.index.drop(e.Object.GetName()), e.Object.GetName())
			r.mu.Unlock()
			enqueue(q, touched)
		},
	}
}

// reports keeps the index of the reports of agents that cannot write on their Nodes, and queues the Nodes that they
// call dead.
func (r *Reconciler) reports() handler.Funcs {
	put := func(o client.Object, there bool, q queue) {
		m, ok := o.(*corev1.ConfigMap)
		if !ok || m.Labels[deaths.ReportLabel] != deaths.ReportValue {
			return
		}
		told, err := deaths.ReportIn(m.Name, m.Labels, m.Data)
		if err != nil {
			r.options.Logger.Warn("cannot read the deaths that an agent reported", "err", err)
			return
		}
		var list []deaths.Death
		if there {
			list = told.Deaths
		}
		r.mu.Lock()
		touched := r.index.report(told.Node, list)
		r.mu.Unlock()
		enqueue(q, touched)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { put(e.Object, true, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { put(e.ObjectNew, true, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { put(e.Object, false, q) },
	}
}

func enqueue(q queue, names []string) {
	for _, n := range names {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: n}})
	}
}

// sweeper finds Nodes with a taint of this program, at the start and from time to time.
type sweeper struct {
	r     *Reconciler
	found chan<- event.GenericEvent
}

func (s *sweeper) NeedLeaderElection() bool { return false }

func (s *sweeper) Start(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	retry := time.NewTicker(requestTimeout)
	defer retry.Stop()
	for {
		next := tick.C
		if err := s.sweep(ctx); err != nil && !errors.Is(err, context.Canceled) {
			s.r.options.Logger.Warn("cannot look for taints left by an earlier run", "err", err)
			next = retry.C
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *sweeper) sweep(ctx context.Context) error {
	page := ""
	for {
		var list corev1.NodeList
		if err := s.r.options.Reader.List(ctx, &list, client.Limit(pageSize), client.Continue(page)); err != nil {
			return err
		}
		for i := range list.Items {
			if n := &list.Items[i]; s.r.Found(n) {
				select {
				case s.found <- event.GenericEvent{Object: n}:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		if page = list.Continue; page == "" {
			return nil
		}
	}
}
