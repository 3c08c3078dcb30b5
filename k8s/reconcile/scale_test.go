package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

const (
	bigNodes, bigDead, bigPods = 500, 50, 40 // pods: of each node
	bigAnswer                  = 10 * time.Millisecond
	// bigEvictions is the number of pods that taint eviction deletes per second: kube-controller-manager deletes 6 to
	// 17.
	bigEvictions = 15
)

// bigWorld is a large cluster in memory, in a bubble. Each request takes bigAnswer.
type bigWorld struct {
	client.Writer // calls that have no method below are not made

	mu      sync.Mutex
	small   *world                            // guarded by mu
	pods    map[string]map[string]*corev1.Pod // by node and name; guarded by mu
	asked   map[string]int                    // guarded by mu
	seconds map[int64]int                     // requests of each second; guarded by mu
	tainted chan string
	first   time.Time // time of the first taint; guarded by mu
	last    time.Time // time of the last taint; guarded by mu
}

func bigName(i int) string { return fmt.Sprintf("big-%03d", i) }

func bigID(i int) string { return fmt.Sprintf("%08x-b3a3-4be2-9d1c-0123456789ab", i+1) }

func newBigWorld(t *testing.T) *bigWorld {
	b := &bigWorld{small: newWorld(t), pods: map[string]map[string]*corev1.Pod{}, asked: map[string]int{}, seconds: map[int64]int{}, tainted: make(chan string, bigDead)}
	b.small.nodes = map[string]*corev1.Node{}
	b.small.now = time.Now()
	for i := range bigNodes {
		name := bigName(i)
		b.small.node(name, bigID(i))
		if i < bigDead {
			b.small.renew(name, time.Now().Add(-time.Hour))
			b.small.nodes[name].Status.Conditions[0].Status = corev1.ConditionUnknown
		}
		b.pods[name] = map[string]*corev1.Pod{}
		for k := range bigPods {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", name, k), ResourceVersion: b.small.version()}, Spec: corev1.PodSpec{NodeName: name}}
			p.UID = types.UID(p.Name)
			b.pods[name][p.Name] = p
		}
	}
	return b
}

// bigClient is the client of one replica, with the limits of cmd/fencing-controller.
type bigClient struct {
	*bigWorld
	limit flowcontrol.RateLimiter
}

// count notes a request that the limit lets through, and answers later.
func (b bigClient) count(ctx context.Context, what string) {
	_ = b.limit.Wait(ctx) // the caller notices a deadline that is too near
	b.mu.Lock()
	b.asked[what]++
	b.seconds[time.Now().Unix()]++
	b.mu.Unlock()
	time.Sleep(bigAnswer)
}

func (b bigClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	b.count(ctx, "get "+map[bool]string{true: "leases", false: "nodes"}[key.Namespace != ""])
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.small.nodes[key.Name]; key.Namespace != "" && n != nil && n.Status.Conditions[0].Status == corev1.ConditionTrue {
		b.small.renew(key.Name, time.Now()) // its kubelet does so
	}
	return b.small.Get(ctx, key, o, opts...)
}

func (b bigClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	for _, opt := range opts {
		opt.ApplyToList(&o)
	}
	node, _ := o.FieldSelector.RequiresExactMatch("spec.nodeName")
	b.count(ctx, "list pods")
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(b.pods[node])) {
		list.(*corev1.PodList).Items = append(list.(*corev1.PodList).Items, *b.pods[node][name].DeepCopy())
	}
	return nil
}

func (b bigClient) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	b.count(ctx, "patch nodes")
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.small.Patch(ctx, o, p, opts...)
	if err == nil {
		b.tainted <- o.GetName()
		if b.last = time.Now(); b.first.IsZero() {
			b.first = b.last
		}
	}
	return err
}

func (b bigClient) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	b.count(ctx, "delete pods")
	b.mu.Lock()
	defer b.mu.Unlock()
	node := o.GetName()[:len("big-000")]
	b.small.pods = b.pods[node]
	return b.small.Delete(ctx, o, opts...)
}

// evict does what taint eviction does.
func (b *bigWorld) evict(ctx context.Context) {
	for {
		select {
		case node := <-b.tainted:
			b.mu.Lock()
			names := slices.Sorted(maps.Keys(b.pods[node]))
			b.mu.Unlock()
			for _, name := range names {
				time.Sleep(time.Second / bigEvictions)
				b.mu.Lock()
				if p := b.pods[node][name]; p != nil {
					at := metav1.Now()
					p.DeletionTimestamp, p.ResourceVersion = &at, b.small.version()
				}
				b.mu.Unlock()
			}
		case <-ctx.Done():
			return
		}
	}
}

func (b *bigWorld) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for i := range bigDead {
		n += len(b.pods[bigName(i)])
	}
	return n
}

// replica runs a replica in the bubble: up to workers Nodes at a time, like the queue. A Node is looked at again when
// an agent names it, and when the reconciler asks for it.
func (b *bigWorld) replica(ctx context.Context, r *Reconciler, wakes []chan struct{}, wg *sync.WaitGroup) {
	slots := make(chan struct{}, workers)
	for i := range bigDead {
		wg.Go(func() {
			for {
				slots <- struct{}{}
				result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: bigName(i)}})
				<-slots
				if err != nil {
					b.small.t.Error(err)
				}
				var again <-chan time.Time
				if result.RequeueAfter > 0 {
					again = time.After(result.RequeueAfter)
				}
				select {
				case <-again:
				case <-wakes[i]:
				case <-ctx.Done():
					return
				}
			}
		})
	}
}

// tell makes all living Nodes name all deaths, one Node every 10 ms.
func (b *bigWorld) tell(replicas []*Reconciler, wakes [][]chan struct{}) {
	var list []deaths.Death
	for i := range bigDead {
		list = append(list, deaths.Death{Node: bigName(i), Boot: deaths.Boot(bigID(i)), Proof: "time", At: noon})
	}
	order := make([]int, bigNodes-bigDead)
	for i := range order {
		order[i] = bigDead + (i*7)%len(order)
	}
	for _, i := range order {
		time.Sleep(10 * time.Millisecond)
		mine := slices.Clone(list)
		for k := range mine {
			mine[k].Said = deaths.Boot(bigID(i))
		}
		b.mu.Lock()
		n := b.small.nodes[bigName(i)]
		n.Annotations[deaths.Annotation], n.ResourceVersion = deaths.Encode(mine), b.small.version()
		b.mu.Unlock()
		for r, x := range replicas {
			x.mu.Lock()
			x.index.put(bigName(i), "worker", mine)
			x.mu.Unlock()
			for _, wake := range wakes[r] {
				select {
				case wake <- struct{}{}:
				default:
				}
			}
		}
	}
}

// A cluster of 500 Nodes and 20000 pods, 50 Nodes dead at once, two replicas, on virtual time: the duration, and the
// cost for the API server. docs/measurements/cluster.md has the figures.
func TestAtScale(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds of a processor")
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newBigWorld(t)
		names := []Replica{{Name: "a"}, {Name: "b"}}
		var replicas []*Reconciler
		var wakes [][]chan struct{}
		var wg sync.WaitGroup
		for _, name := range names {
			r := b.small.reconciler(func(o *Options) {
				c := bigClient{b, flowcontrol.NewTokenBucketRateLimiter(100, 200)}
				o.Reader, o.Writer, o.Now, o.Self, o.Replicas = c, c, time.Now, name.Name, func() []Replica { return names }
				o.Events = silent{}
			})
			replicas = append(replicas, r)
			mine := make([]chan struct{}, bigDead)
			for i := range mine {
				mine[i] = make(chan struct{}, 1)
			}
			wakes = append(wakes, mine)
			b.replica(ctx, r, mine, &wg)
		}
		wg.Go(func() { b.evict(ctx) })
		began := time.Now()
		wg.Go(func() { b.tell(replicas, wakes) })
		for deadline := began.Add(time.Hour); b.left() > 0; time.Sleep(time.Second) {
			if time.Now().After(deadline) {
				t.Errorf("%d pods are left after an hour", b.left())
				break
			}
		}
		took := time.Since(began)
		cancel()
		wg.Wait()
		sum, most := 0, 0
		for _, n := range b.seconds {
			sum, most = sum+n, max(most, n)
		}
		t.Logf("first taint after %.1f s, last after %.1f s, last pod gone after %.0f s", b.first.Sub(began).Seconds(), b.last.Sub(began).Seconds(), took.Seconds())
		t.Logf("%d requests, %.0f a second, at most %d in one: %v", sum, float64(sum)/took.Seconds(), most, b.asked)
		if perfect := float64(bigDead*bigPods) / bigEvictions; took.Seconds() > 1.15*perfect {
			t.Errorf("%.0f s, and the evictions alone take %.0f", took.Seconds(), perfect)
		}
		if mean := float64(sum) / took.Seconds(); mean > 190 {
			t.Errorf("%.0f requests a second: the limit of the clients is 200, and what waits there is late", mean)
		}
	})
}

// silent drops Events.
type silent struct{}

func (silent) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
