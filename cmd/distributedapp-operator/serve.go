package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

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

	"github.com/fencing-agent/fencing-agent/k8s/distributedapp"
	"github.com/fencing-agent/fencing-agent/k8s/distributedapp/gossip"
	"github.com/fencing-agent/fencing-agent/k8s/program"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

const (
	qps       = 50
	keysEvery = 10 * time.Second
)

// serve runs until the context ends.
func serve(ctx context.Context, f *flags, log *slog.Logger) error {
	mgr, err := program.Manager(program.API{
		Kubeconfig: f.kubeconfig, UserAgent: distributedapp.Name, QPS: qps,
		Types: []func(*runtime.Scheme) error{corev1.AddToScheme, distributedapp.AddToScheme},
	}, ctrl.Options{
		HealthProbeBindAddress: f.health,
		Metrics:                server.Options{BindAddress: f.metrics},
		Cache: cache.Options{
			SyncPeriod:                  new(distributedapp.Resync),
			ReaderFailOnMissingInformer: true, // a read that a cache would answer by watching all objects is a mistake
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}: {Label: labels.SelectorFromSet(labels.Set{distributedapp.ManagedBy: distributedapp.Name})},
				&corev1.ConfigMap{}: {
					Namespaces: map[string]cache.Config{f.namespace: {}}, Field: fields.OneTermEqualSelector("metadata.name", distributedapp.ConfigMap),
				},
			},
		},
	}, log)
	if err != nil {
		return err
	}
	r := distributedapp.New(distributedapp.Options{
		Self: f.gossip.Name, Rank: f.rank, Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Namespace: f.namespace,
		Logger: log, Metrics: distributedapp.NewMetrics(metrics.Registry),
	})
	talk, err := connect(ctx, f, r, log)
	if err != nil {
		return err
	}
	if err := errors.Join(r.Setup(ctx, mgr, talk), mgr.Add(manager.RunnableFunc(talk.Run))); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return program.Run(ctx, mgr, log, "operator", "version", f.Version, "gossip", talk.Address(), "encrypted", f.keyFile != "")
}

// connect listens for the other replicas.
func connect(ctx context.Context, f *flags, r *distributedapp.Replica, log *slog.Logger) (*gossip.Gossip, error) {
	o := f.gossip
	o.Version, o.State, o.Receive, o.Logger, o.Metrics = f.Version, r.State, r.Receive, log, gossip.NewMetrics(metrics.Registry)
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
