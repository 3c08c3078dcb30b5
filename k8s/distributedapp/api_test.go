package distributedapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// api is an API server in memory that counts writes without a precondition. It shares no code with the code under test.
type api struct {
	t    *testing.T
	mu   sync.Mutex
	rng  *rand.Rand
	rv   int
	apps map[string]*DistributedApp
	pods map[string]*corev1.Pod
	conf *corev1.ConfigMap

	touched               map[string]time.Time // when an app was last disturbed
	changed               func(app string)     // called with mu held
	writes, blind, refuse int
	reads                 int            // of the configuration
	by                    map[string]int // number of accepted writes, by replica
	statuses              map[string]uint64
	reliable              bool   // no answer is lost
	listed                func() // called when a look has its list of pods, without mu
	missed                func() // called when a look has found no app, without mu
}

func newAPI(t *testing.T, seed uint64) *api {
	a := &api{t: t, rng: rand.New(rand.NewPCG(seed, 19)), rv: 10, apps: map[string]*DistributedApp{}, pods: map[string]*corev1.Pod{},
		touched: map[string]time.Time{}, changed: func(string) {}, by: map[string]int{}, statuses: map[string]uint64{}}
	a.conf = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ConfigMap, Namespace: "ops", ResourceVersion: a.next()}}
	return a
}

func (a *api) next() string {
	a.rv++
	return strconv.Itoa(a.rv)
}

func (a *api) random(n int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rng.IntN(n)
}

// bare records a write without its precondition.
func (a *api) bare(who, what string) {
	a.blind++
	a.t.Errorf("%s: %s rests on nothing", who, what)
}

func (a *api) show(app string, disturbs bool) {
	if disturbs {
		a.touched[app] = time.Now()
	}
	a.changed(app)
}

// caller is the API server as one replica reaches it.
type caller struct {
	client.Client
	*api
	who string
	cut func() bool
}

var (
	appsResource = schema.GroupResource{Group: GroupVersion.Group, Resource: "distributedapps"}
	podsResource = schema.GroupResource{Resource: "pods"}
	errStale     = errors.New("it is another one by now")
)

// travel delays a request or an answer, or loses it if the replica is cut off. A request that was sent arrives even if
// its sender has ended.
func (c caller) travel(ctx context.Context) error {
	time.Sleep(time.Duration(1+c.random(150)) * time.Millisecond) // of the bubble
	if c.cut() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (c caller) call(ctx context.Context, do func() error) error {
	if err := c.travel(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	err, reliable := do(), c.reliable
	c.mu.Unlock()
	if c.random(100) < 2 && !reliable {
		return errors.New("the answer is lost")
	}
	if e := c.travel(ctx); e != nil {
		return e
	}
	return err
}

func (c caller) written(err error) error {
	c.writes++
	if err != nil {
		c.refuse++
		return err
	}
	c.by[c.who]++
	return nil
}

func (c caller) Get(ctx context.Context, k client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	missed := func() {}
	defer func() { missed() }()
	return c.call(ctx, func() error {
		switch o := o.(type) {
		case *DistributedApp:
			if d := c.apps[k.Name]; d != nil {
				*o = *d.DeepCopyObject().(*DistributedApp)
				return nil
			}
			if c.missed != nil {
				missed = c.missed
			}
			return apierrors.NewNotFound(appsResource, k.Name)
		case *corev1.ConfigMap:
			c.reads++
			*o = *c.conf.DeepCopy()
			return nil
		}
		return fmt.Errorf("%T is not read", o)
	})
}

func (c caller) List(ctx context.Context, l client.ObjectList, _ ...client.ListOption) error {
	listed := func() {}
	err := c.call(ctx, func() error {
		for _, p := range c.pods {
			l.(*corev1.PodList).Items = append(l.(*corev1.PodList).Items, *p.DeepCopy())
		}
		if c.listed != nil {
			listed = c.listed
		}
		return nil
	})
	listed()
	return err
}

func (c caller) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	return c.call(ctx, func() error {
		p := o.(*corev1.Pod).DeepCopy()
		if p.Name == "" || p.GenerateName != "" {
			c.bare(c.who, "a pod without a full name")
			p.Name = "x" + c.next()
		}
		owner := metav1.GetControllerOf(p)
		if d := c.apps[owner.Name]; d != nil && d.UID == owner.UID && len(d.Finalizers) == 0 {
			c.t.Errorf("%s: a pod before the finalizer", c.who)
		}
		if c.pods[p.Name] != nil {
			return c.written(apierrors.NewAlreadyExists(podsResource, p.Name))
		}
		p.UID, p.ResourceVersion = types.UID("p"+c.next()), c.next()
		c.pods[p.Name] = p
		c.show(owner.Name, false)
		return c.written(nil)
	})
}

func (c caller) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	var d client.DeleteOptions
	d.ApplyOptions(opts)
	return c.call(ctx, func() error {
		p := c.pods[o.GetName()]
		if d.Preconditions == nil || d.Preconditions.UID == nil || d.Preconditions.ResourceVersion == nil {
			c.bare(c.who, "a deletion")
			return c.written(nil)
		}
		switch {
		case p == nil:
			return c.written(apierrors.NewNotFound(podsResource, o.GetName()))
		case p.UID != *d.Preconditions.UID || p.ResourceVersion != *d.Preconditions.ResourceVersion:
			return c.written(apierrors.NewConflict(podsResource, p.Name, errStale))
		}
		owner := metav1.GetControllerOf(p)
		if owner == nil {
			c.t.Errorf("%s: deletes %s, which is nobody's", c.who, p.Name)
			return c.written(nil)
		}
		c.end(p)
		return c.written(nil)
	})
}

// end ends a pod within three seconds. The caller holds mu.
func (a *api) end(p *corev1.Pod) {
	if p.DeletionTimestamp == nil {
		now := metav1.Now()
		p.DeletionTimestamp, p.ResourceVersion = &now, a.next()
		time.AfterFunc(time.Duration(a.rng.IntN(3000))*time.Millisecond, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			delete(a.pods, p.Name)
			if o := metav1.GetControllerOf(p); o != nil {
				a.show(o.Name, false)
			}
		})
	}
	if o := metav1.GetControllerOf(p); o != nil {
		a.show(o.Name, false)
	}
}

type subresource struct {
	client.SubResourceWriter
	c caller
}

func (c caller) Status() client.SubResourceWriter { return subresource{c: c} }

func (s subresource) Patch(ctx context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.c.patch(ctx, o, p, true)
}

func (c caller) Patch(ctx context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	return c.patch(ctx, o, p, false)
}

func (c caller) patch(ctx context.Context, o client.Object, p client.Patch, status bool) error {
	text, _ := p.Data(o)
	var body struct {
		Metadata struct {
			ResourceVersion string
			Finalizers      json.RawMessage
		}
		Status json.RawMessage
	}
	if err := json.Unmarshal(text, &body); err != nil {
		return err
	}
	return c.call(ctx, func() error {
		d := c.apps[o.GetName()]
		if body.Metadata.ResourceVersion == "" {
			c.bare(c.who, "a patch")
		}
		switch {
		case d == nil:
			return c.written(apierrors.NewNotFound(appsResource, o.GetName()))
		case d.ResourceVersion != body.Metadata.ResourceVersion:
			return c.written(apierrors.NewConflict(appsResource, d.Name, errStale))
		}
		d.ResourceVersion = c.next()
		if status {
			if err := json.Unmarshal(body.Status, &d.Status); err != nil {
				return err
			}
			c.judgeStatus(d)
		} else if body.Metadata.Finalizers != nil {
			d.Finalizers = nil
			if err := json.Unmarshal(body.Metadata.Finalizers, &d.Finalizers); err != nil {
				return err
			}
			c.release(d)
		}
		c.show(d.Name, false)
		return c.written(nil)
	})
}

// judgeStatus checks that versions in statuses only grow.
func (c caller) judgeStatus(d *DistributedApp) {
	v, err := strconv.ParseUint(d.Status.ConfigVersion, 10, 64)
	if err != nil || v < c.statuses[string(d.UID)] {
		c.t.Errorf("%s: configuration %q after %d", c.who, d.Status.ConfigVersion, c.statuses[string(d.UID)])
	}
	c.statuses[string(d.UID)] = v
}

// release removes an app that is being deleted and has no finalizer.
func (a *api) release(d *DistributedApp) {
	if d.DeletionTimestamp == nil || len(d.Finalizers) > 0 {
		return
	}
	for _, p := range a.pods {
		if o := metav1.GetControllerOf(p); o != nil && o.UID == d.UID {
			a.t.Errorf("%s goes, and %s is there", d.Name, p.Name)
		}
	}
	delete(a.apps, d.Name)
	delete(a.touched, d.Name)
}

// collect ends pods whose owner is gone, as Kubernetes does.
func (a *api) collect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pods {
		o := metav1.GetControllerOf(p)
		if o == nil || p.DeletionTimestamp != nil {
			continue
		}
		if d := a.apps[o.Name]; d == nil || d.UID != o.UID {
			a.end(p)
		}
	}
}

// unsettled returns the apps that are not as they should be, with the reason.
func (a *api) unsettled() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]string{}
	for name, d := range a.apps {
		live := 0
		for _, p := range a.pods {
			if o := metav1.GetControllerOf(p); o != nil && o.UID == d.UID && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed {
				live++
			}
		}
		if d.DeletionTimestamp != nil || live != int(d.Spec.Replicas) || d.Status.ObservedGeneration != d.Generation || d.Status.ConfigVersion != a.conf.ResourceVersion {
			out[name] = fmt.Sprintf("%d of %d pods, generation %d, deleted %v, configuration %s, status %+v", live, d.Spec.Replicas, d.Generation, d.DeletionTimestamp, a.conf.ResourceVersion, d.Status)
		}
	}
	return out
}

// The functions below are changes that people make.

func (a *api) make(name string, replicas int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.apps[name] != nil {
		return
	}
	a.apps[name] = &DistributedApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("u" + a.next()), ResourceVersion: a.next(), Generation: 1},
		Spec:       Spec{Replicas: replicas, ApplicationImage: "i"},
	}
	a.show(name, true)
}

func (a *api) scale(name string, replicas int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := a.apps[name]; d != nil && d.DeletionTimestamp == nil {
		d.Spec.Replicas, d.Generation, d.ResourceVersion = replicas, d.Generation+1, a.next()
		a.show(name, true)
	}
}

func (a *api) erase(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := a.apps[name]; d != nil && d.DeletionTimestamp == nil {
		now := metav1.Now()
		d.DeletionTimestamp, d.Generation, d.ResourceVersion = &now, d.Generation+1, a.next()
		a.show(name, true)
		a.release(d)
	}
}

// hurt makes a pod of an app fail or end, or replaces it by a foreign pod.
func (a *api) hurt(name string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pod := fmt.Sprintf("%s-%d", name, n)
	switch p := a.pods[pod]; {
	case p == nil:
		a.pods[pod] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod, UID: types.UID("p" + a.next()), ResourceVersion: a.next(), Labels: map[string]string{"app": name}}}
	case n%2 == 0:
		p.Status.Phase, p.ResourceVersion = corev1.PodFailed, a.next()
	default:
		a.end(p)
	}
	a.show(name, true)
}

func (a *api) configure(data map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conf = a.conf.DeepCopy()
	a.conf.Data, a.conf.ResourceVersion = data, a.next()
	for name := range a.apps {
		a.touched[name] = time.Now()
	}
}
