package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-controller/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-controller/members"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

// booksNamespace is where books are outside of a cluster.
const booksNamespace = "fencing-controller"

func booksIn(id identity) string {
	if id.namespace == "" {
		return booksNamespace
	}
	return id.namespace
}

// slim removes from Nodes what takes most of their memory and is not needed here.
//
// Invariant: whether a Node is Ready is kept. An agent that follows this controller learns only from that when to
// report that its boot runs, which delays what a device says about that boot (docs/adr/0073).
func slim(o any) (any, error) {
	if n, ok := o.(*corev1.Node); ok {
		n.ManagedFields, n.Status.Images = nil, nil
		n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type != corev1.NodeReady })
	}
	return o, nil
}

// books limits the watch of ConfigMaps to the books and the agents' reports of dead nodes.
func books(id identity) cache.ByObject {
	which := labels.Nothing()
	if r, err := labels.NewRequirement(members.BookLabel, selection.In, []string{"true", deaths.ReportValue}); err == nil {
		which = labels.NewSelector().Add(*r)
	}
	return cache.ByObject{Namespaces: map[string]cache.Config{booksIn(id): {}}, Label: which}
}

// listServer serves lists of members. Each replica has one.
type listServer struct {
	c       *config.Config
	cache   cache.Cache
	cluster *members.Cluster
	hub     *members.Hub
	metrics *members.Metrics
	log     *slog.Logger
}

// newListServer returns nil if no lists are served.
func newListServer(c *config.Config, mgr ctrl.Manager, log *slog.Logger, id identity) *listServer {
	if !c.Members {
		return nil
	}
	hub := members.NewHub()
	return &listServer{
		c: c, cache: mgr.GetCache(), hub: hub, metrics: members.NewMetrics(metrics.Registry, hub), log: log,
		cluster: &members.Cluster{
			Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Namespace: booksIn(id), GroupLabel: c.GroupLabel,
			Audience: c.MembersAudience, Agents: c.MembersAgents,
		},
	}
}

// reported returns the agents' reports of dead nodes; nil if no agent can send them.
func (s *listServer) reported() func(context.Context, string) (*deaths.Report, error) {
	if s == nil {
		return nil
	}
	return func(ctx context.Context, node string) (*deaths.Report, error) {
		r, _, err := s.cluster.Reported(ctx, node)
		return r, err
	}
}

func (*listServer) NeedLeaderElection() bool { return false }

func (s *listServer) Start(ctx context.Context) error {
	l, err := net.Listen("tcp", s.c.MembersAddress)
	if err != nil {
		return fmt.Errorf("members.address: %w", err)
	}
	srv := grpc.NewServer(members.Options(s.c.MembersCert, s.c.MembersKey, s.log)...)
	fencingv1.RegisterFencingMembersServer(srv, &members.Server{Hub: s.hub, Review: s.cluster.Review, Exists: s.cluster.Exists, Logger: s.log, Told: s.cluster})
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	scribe := &members.Scribe{Hub: s.hub, Store: s.cluster, Logger: s.log, Count: s.metrics.Count}
	wg.Go(func() { scribe.Run(ctx) })
	wg.Go(func() {
		for ctx.Err() == nil {
			err := members.Watch(ctx, s.cache, s.hub, s.c.GroupLabel, s.log)
			if err == nil || ctx.Err() != nil {
				return
			}
			s.log.Warn("watching Nodes failed; lists may be old", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(replicasWait):
			}
		}
	})
	wg.Go(func() {
		<-ctx.Done()
		srv.Stop()
	})
	s.log.Info("serving lists of members", "address", s.c.MembersAddress)
	return srv.Serve(l)
}
