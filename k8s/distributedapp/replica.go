package distributedapp

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// Resync is the interval at which the watches show all apps again.
	Resync = 10 * time.Minute

	pause          = 3 * time.Second // a replica waits this long for each replica before it
	workers        = 4
	requestTimeout = 10 * time.Second // of one look: two reads and a write
	readPause      = time.Second      // between two reads of the configuration, however many messages ask for one
	mostMessages   = 64               // at once; the limit for longer is one a second
	firstRetry     = 100 * time.Millisecond
	lastRetry      = 6400 * time.Millisecond
)

// Gossip is what a replica needs from its transport.
type Gossip interface {
	Members() (names []string, changed time.Time) // this one included, and when the list last changed
	Tell(Message)                                 // to all others; it does not wait
}

// Options configures a Replica.
type Options struct {
	Self      string
	Rank      func(work, self string, replicas []string) int // as in k8s/ownership
	Reader    client.Reader                                  // reads from the API server, not from a cache
	Writer    client.Client
	Namespace string // of the ConfigMap
	Logger    *slog.Logger
	Metrics   *Metrics
}

// configKey represents the operator's configuration in the queue of apps.
var configKey types.NamespacedName

// Replica is one of the replicas that manage the apps.
type Replica struct {
	o      Options
	gossip Gossip
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]
	hints  flowcontrol.RateLimiter // limits the messages that are looked at

	mu        sync.Mutex
	apps      map[types.NamespacedName]int64 // the apps that the watch shows, with their generations
	config    config
	complaint string // the last logged problem of the configuration
}

// New returns a replica that does nothing before Start.
func New(o Options) *Replica {
	r := &Replica{
		o: o, hints: flowcontrol.NewTokenBucketRateLimiter(mostMessages, mostMessages), apps: map[types.NamespacedName]int64{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry, lastRetry)),
	}
	o.Metrics.shows(r)
	return r
}

// Setup adds the replica to a manager: its watches and its loop. The transport is created after the replica, since it
// calls State and Receive.
func (r *Replica) Setup(ctx context.Context, mgr manager.Manager, g Gossip) error {
	r.gossip = g
	for _, w := range []struct {
		of         client.Object
		seen, gone func(o any)
	}{
		{&DistributedApp{}, r.seeApp, r.loseApp},
		{&corev1.Pod{}, r.seePod, r.seePod},
		{&corev1.ConfigMap{}, r.seeConfig, func(any) {}}, // a deleted configuration stays in use
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

// seeApp handles an app that the watch shows. It tells the other replicas what a person has changed, but not a new
// status (D6).
func (r *Replica) seeApp(o any) {
	d, ok := o.(*DistributedApp)
	if !ok {
		return
	}
	k := client.ObjectKeyFromObject(d)
	r.mu.Lock()
	known := r.apps[k] == d.Generation
	r.apps[k] = d.Generation
	r.mu.Unlock()
	r.enqueue(k)
	switch {
	case known:
	case d.DeletionTimestamp != nil:
		r.tell(Message{Kind: Delete, Namespace: k.Namespace, Name: k.Name})
	default:
		r.tell(Message{Kind: Reconcile, Namespace: k.Namespace, Name: k.Name})
	}
}

func (r *Replica) loseApp(o any) {
	if d, ok := o.(*DistributedApp); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.apps, client.ObjectKeyFromObject(d))
	}
}

func (r *Replica) seePod(o any) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	if by := metav1.GetControllerOf(p); by != nil && by.Kind == kind && by.APIVersion == GroupVersion.String() {
		r.enqueue(types.NamespacedName{Namespace: p.Namespace, Name: by.Name})
	}
}

func (r *Replica) seeConfig(o any) {
	if m, ok := o.(*corev1.ConfigMap); ok && m.Name == ConfigMap && m.Namespace == r.o.Namespace {
		r.configured(m)
	}
}

// enqueue queues an app: at once if this replica is the first, else after the pauses for the replicas before it.
func (r *Replica) enqueue(k types.NamespacedName) {
	members, _ := r.gossip.Members()
	r.queue.AddAfter(k, time.Duration(r.o.Rank(k.String(), r.o.Self, members))*pause)
}

func (r *Replica) tell(m Message) {
	m.Origin, m.Timestamp = r.o.Self, time.Now().UnixNano()
	r.gossip.Tell(m)
}

// State returns what a replica gets when it joins or returns.
func (r *Replica) State() Message {
	return Message{Kind: Configure, Origin: r.o.Self, Timestamp: time.Now().UnixNano(), Version: r.current().version}
}

func (r *Replica) current() config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.config
}

// Receive handles a message of another replica (D5).
func (r *Replica) Receive(m Message) {
	switch {
	case m.Origin == r.o.Self:
	case !r.hints.TryAccept():
		r.o.Metrics.dropped.Inc()
	case m.Kind != Configure:
		r.enqueue(types.NamespacedName{Namespace: m.Namespace, Name: m.Name})
	case m.Version > r.current().version:
		r.queue.AddAfter(configKey, readPause)
	}
}

// configured handles a ConfigMap that was read, or that the watch shows. If it has a mistake, no part of it is used
// (D4).
func (r *Replica) configured(m *corev1.ConfigMap) {
	c, err := readConfig(m)
	if err != nil {
		r.o.Metrics.refused.Inc()
		r.complain(err)
		return
	}
	r.mu.Lock()
	newer := c.version > r.config.version
	if newer {
		r.config, r.complaint = c, ""
	}
	apps := slices.Collect(maps.Keys(r.apps))
	r.mu.Unlock()
	if !newer {
		return
	}
	r.o.Logger.Info("a new configuration is in use", "version", c.version)
	for _, k := range apps {
		r.enqueue(k)
	}
	r.tell(r.State())
}

// complain logs once that the configuration cannot be used. The configuration in use stays in use.
func (r *Replica) complain(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err.Error() != r.complaint {
		r.complaint = err.Error()
		r.o.Logger.Warn("cannot use the operator's configuration; the previous one stays in use; if there was none, nothing is done",
			"configmap", r.o.Namespace+"/"+ConfigMap, "err", err)
	}
}

func (r *Replica) NeedLeaderElection() bool { return false }

// Start runs the workers until the context ends.
func (r *Replica) Start(ctx context.Context) error {
	r.queue.Add(configKey)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for r.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	r.queue.ShutDown()
	wg.Wait()
	return nil
}
