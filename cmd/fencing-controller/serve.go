package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-controller/config"
	"github.com/fencing-agent/fencing-agent/k8s/belief"
	"github.com/fencing-agent/fencing-agent/k8s/fencing"
	"github.com/fencing-agent/fencing-agent/k8s/program"
	"github.com/fencing-agent/fencing-agent/k8s/reconcile"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

const (
	userAgent    = "fencing-controller"
	storageAgent = "fencing-storage"
	appLabel     = "app.kubernetes.io/name"
	qps          = 100
	replicasWait = time.Second
)

// identity is the name of this replica.
type identity struct{ pod, namespace string }

func self() identity {
	id := identity{os.Getenv("POD_NAME"), os.Getenv("POD_NAMESPACE")}
	if id.pod == "" {
		id.pod, _ = os.Hostname()
	}
	return id
}

// serve runs the controller until the context ends.
func serve(ctx context.Context, c *config.Config, log *slog.Logger, id identity, version string) error {
	var r *reconcile.Reconciler
	mgr, err := program.Manager(program.API{
		Kubeconfig: c.Kubeconfig, UserAgent: userAgent, QPS: qps,
		Wrap:  func(next http.RoundTripper) http.RoundTripper { return &dates{next: next, log: log, now: time.Now} },
		Types: []func(*runtime.Scheme) error{authenticationv1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme, batchv1.AddToScheme, fencing.AddToScheme},
	}, ctrl.Options{
		HealthProbeBindAddress: c.HealthAddress,
		Metrics: server.Options{BindAddress: c.MetricsAddress, ExtraHandlers: map[string]http.Handler{
			"/nodes": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { r.WriteNodes(w) }),
		}},
		Cache: cache.Options{
			ReaderFailOnMissingInformer: true, // a read that a cache would answer by watching all objects is a mistake
			ByObject:                    map[client.Object]cache.ByObject{&corev1.Pod{}: replicaPods(id), &corev1.ConfigMap{}: books(id), &corev1.Node{}: {Transform: slim}},
		},
	}, log)
	if err != nil {
		return err
	}
	there := replicas(ctx, mgr.GetCache(), id)
	lists := newListServer(c, mgr, log, id)
	fencer := newFencer(c, mgr, log, id, there)
	r = reconcile.New(reconcile.Options{
		Power: power(fencer), Seen: sees(fencer), Reported: lists.reported(),
		Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Events: mgr.GetEventRecorder(userAgent), Logger: log,
		Metrics: reconcile.NewMetrics(metrics.Registry, c.DryRun), Now: time.Now, Self: id.pod, Replicas: there,
		Recovery:   recovery.Settings{DryRun: c.DryRun, Settle: c.Settle},
		Belief:     belief.Settings{MinReporters: c.MinReporters, Unknown: c.ReadyUnknown, GroupsOfTwo: c.GroupsOfTwo},
		Storm:      storm.Settings{Evicting: c.Evicting, DeletesPerSecond: c.DeletesPerSecond, MaxDeadPercent: c.MaxDeadPercent},
		Pause:      c.Pause,
		GroupLabel: c.GroupLabel, ExcludeNamespaces: c.ExcludeNamespaces, StatefulSetsOnly: c.StatefulSetsOnly,
	})
	if err := r.Setup(mgr); err != nil {
		return err
	}
	if err := addFencer(mgr, fencer, r.Proven, c.KdumpAddress, log); err != nil {
		return err
	}
	if c.PageAddress != "" {
		if err := mgr.Add(&pageServer{c, r.Picture, log, version}); err != nil {
			return fmt.Errorf("set up the status page: %w", err)
		}
	}
	if lists != nil {
		if fencer != nil {
			fencer.Found = lists.hub.Found
		}
		if err := mgr.Add(lists); err != nil {
			return fmt.Errorf("set up lists of members: %w", err)
		}
	}
	if id.namespace != "" {
		if _, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{}); err != nil {
			return fmt.Errorf("watch the other replicas: %w", err)
		}
	}
	return program.Run(ctx, mgr, log, "controller", "version", version, "dryRun", c.DryRun, "replica", id.pod)
}

// addFencer adds to the manager the parts that fence nodes by their devices and listen to their crash kernels, if this
// is enabled.
func addFencer(mgr ctrl.Manager, fencer *fencing.Runner, proven func(node string), kdump string, log *slog.Logger) error {
	if fencer == nil {
		return nil
	}
	fencer.Proven = proven
	if kdump != "" {
		fencer.Crashes = fencing.NewCrashes(kdump, log, time.Now, metrics.Registry)
		if err := mgr.Add(fencer.Crashes); err != nil {
			return fmt.Errorf("set up the listener for crash kernels: %w", err)
		}
	}
	if err := mgr.Add(fencer); err != nil {
		return fmt.Errorf("set up fencing by devices: %w", err)
	}
	return nil
}

// newFencer returns the part that fences nodes by their devices; nil if that is not enabled. With dryRun nothing is
// switched.
func newFencer(c *config.Config, mgr ctrl.Manager, log *slog.Logger, id identity, there func() []reconcile.Replica) *fencing.Runner {
	if !c.NodeFence {
		return nil
	}
	if c.DryRun {
		log.Warn("nodeFence.enabled has no effect while dryRun is true: nothing is switched")
		return nil
	}
	toldIn := ""
	if c.Members {
		toldIn = booksIn(id)
	}
	return &fencing.Runner{
		ToldIn: toldIn,
		Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Events: mgr.GetEventRecorder(userAgent), Logger: log,
		Metrics: fencing.NewMetrics(metrics.Registry), Now: time.Now, Namespace: c.FenceNamespace, Image: c.ExecutorImage, Selector: c.ExecutorSelector,
		GroupLabel: c.GroupLabel, MaxDeadPercent: c.MaxDeadPercent,
		Self: id.pod, Pause: c.Pause, Replicas: func() []string {
			var names []string
			for _, o := range there() {
				names = append(names, o.Name)
			}
			return names
		},
	}
}

// power returns the function with which the recovery asks whether a NodeFence proves that a boot of a node has ended.
func power(f *fencing.Runner) func(ctx context.Context, node, boot string) (bool, error) {
	if f == nil {
		return nil
	}
	return f.Proof
}

// sees returns the function with which the recovery asks which agents see a boot.
func sees(f *fencing.Runner) func(node, boot string) []string {
	if f == nil {
		return nil
	}
	return f.Seen
}

// replicaPods limits the watch of pods to those of the controller.
func replicaPods(id identity) cache.ByObject {
	return cache.ByObject{
		Namespaces: map[string]cache.Config{id.namespace: {}},
		Label:      labels.SelectorFromSet(labels.Set{appLabel: userAgent}),
	}
}

// replicas lists the pods of the controller from the cache. Outside of a cluster there is only this replica.
func replicas(ctx context.Context, c cache.Cache, id identity) func() []reconcile.Replica {
	return func() []reconcile.Replica {
		if id.namespace == "" {
			return []reconcile.Replica{{Name: id.pod}}
		}
		ctx, cancel := context.WithTimeout(ctx, replicasWait)
		defer cancel()
		var list corev1.PodList
		if err := c.List(ctx, &list); err != nil {
			return nil // then this replica begins at once, which is harmless
		}
		var there []reconcile.Replica
		for i := range list.Items {
			if p := &list.Items[i]; p.DeletionTimestamp == nil {
				there = append(there, reconcile.Replica{Name: p.Name, Node: p.Spec.NodeName})
			}
		}
		return there
	}
}
