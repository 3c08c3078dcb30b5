package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kubeclient "github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/distributedapp/gossip"
	"github.com/fencing-agent/fencing-agent/k8s/distributedapp/operator"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

const (
	qps, burst = 50, 100
	stopTime   = 5 * time.Second // less than the pod's grace
	keysEvery  = 10 * time.Second
	syncWait   = time.Second
)

// serve runs until the context ends.
func serve(ctx context.Context, f *flags, log *slog.Logger) error {
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	rc, err := kubeclient.Load(f.kubeconfig)
	if err != nil {
		return err
	}
	rc.UserAgent, rc.QPS, rc.Burst = operator.Name, qps, burst
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), operator.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("types of the API: %w", err)
	}
	stopWithin := stopTime
	mgr, err := ctrl.NewManager(rc, ctrl.Options{
		Scheme: scheme, HealthProbeBindAddress: f.health, GracefulShutdownTimeout: &stopWithin,
		Metrics: server.Options{BindAddress: f.metrics},
		Cache: cache.Options{
			ReaderFailOnMissingInformer: true, // a read that a cache would answer by watching everything is a mistake
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}: {Label: labels.SelectorFromSet(labels.Set{operator.ManagedBy: operator.Name})},
				&corev1.ConfigMap{}: {
					Namespaces: map[string]cache.Config{f.namespace: {}}, Field: fields.OneTermEqualSelector("metadata.name", operator.ConfigMap),
				},
			},
		},
	})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	r := operator.New(operator.Options{
		Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Core: f.core, Stable: f.stable, Namespace: f.namespace, Workers: f.workers,
		Logger: log, Metrics: operator.NewMetrics(metrics.Registry), Now: time.Now,
	})
	talk, err := connect(ctx, f, r, log)
	if err != nil {
		return err
	}
	r.Connect(talk)
	if err := errors.Join(r.Setup(ctx, mgr), mgr.Add(manager.RunnableFunc(talk.Run))); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	err = errors.Join(mgr.AddHealthzCheck("running", func(*http.Request) error { return nil }), mgr.AddReadyzCheck("synced", synced(mgr.GetCache())))
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	log.Info("operator started", "version", versionText(), "gossip", talk.Address(), "encrypted", f.keyFile != "", "server", rc.Host)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	log.Info("operator stopped")
	return nil
}

// connect listens for the other replicas.
func connect(ctx context.Context, f *flags, r *operator.Runner, log *slog.Logger) (*gossip.Gossip, error) {
	o := gossip.Options{
		Name: f.core.Self, Version: versionText(), Bind: f.bind, Port: f.port, Advertise: f.advertise, AdvertisePort: f.advertisePort,
		Peers: f.peerList(), Rejoin: f.rejoin, ProbeInterval: f.probe, ProbeTimeout: f.probeTimeout, TCPTimeout: f.tcp,
		State: r.State, Receive: r.Receive, Changed: r.Wake, Logger: log, Metrics: gossip.NewMetrics(metrics.Registry),
	}
	if f.keyFile == "" {
		log.Warn("gossip is neither encrypted nor authenticated: anybody who reaches the port can make replicas look; set --key-file")
	} else {
		ring, err := swim.LoadKeyring(f.keyFile, log)
		if err != nil {
			return nil, err
		}
		o.Keyring = ring
		go swim.FollowKeyring(ctx, f.keyFile, ring, keysEvery, log)
	}
	return gossip.New(o)
}

// synced is ready when the DistributedApps and their pods have been listed.
func synced(c cache.Cache) func(*http.Request) error {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), syncWait)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("the DistributedApps have not been listed yet")
		}
		return nil
	}
}
