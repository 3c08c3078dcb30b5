package storagewatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/fencing-agent/fencing-agent/k8s/fencing"
	"github.com/fencing-agent/fencing-agent/k8s/storagefence"
)

const (
	driver = "csi.storage.example"
	bootID = "024bc581-b3a3-4be2-9d1c-0123456789ab"
	boot   = "024bc581b3a34be3"
)

// storage is a storage in memory.
type storage struct {
	mu      sync.Mutex
	nodes   map[string]storagefence.Health
	volumes map[string]storagefence.Health // by CSI handle
	fail    error
	deaf    string // CSI handle of a volume about which it does not answer
	asked   int    // number of questions for nodes
	// onAsk runs before the answer to the n-th question for nodes.
	onAsk func(n int)
}

func (s *storage) Nodes(context.Context) ([]storagefence.Node, error) {
	s.mu.Lock()
	s.asked++
	n, on := s.asked, s.onAsk
	s.mu.Unlock()
	if on != nil {
		on(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []storagefence.Node
	for name, h := range s.nodes {
		out = append(out, storagefence.Node{Name: name, Health: h})
	}
	return out, s.fail
}

func (s *storage) Volume(ctx context.Context, handle string) (storagefence.Health, string, error) {
	if handle == s.deaf {
		<-ctx.Done()
		return storagefence.Healthy, "", ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.volumes[handle], "as the test says", s.fail
}

func (s *storage) set(node string, h storagefence.Health) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[node] = h
}

// world is an API server in memory, the storage, and a runner between them, on virtual time.
type world struct {
	t       *testing.T
	api     client.Client
	storage *storage
	metrics *prometheus.Registry
	o       Options

	mu     sync.Mutex
	writes []string // what was written, in order
	events []string
	fail   func(write string) error
	// deaf is asked before each read of the API server; true: it is never answered.
	deaf func(read string) bool
	lost string // the write that is carried out, and never answered
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), storagev1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme), fencing.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, metrics: prometheus.NewRegistry(), storage: &storage{
		nodes:   map[string]storagefence.Health{"n1": storagefence.Healthy, "n2": storagefence.Healthy},
		volumes: map[string]storagefence.Health{},
	}}
	for _, n := range []string{"n1", "n2"} {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: bootID}}})
	}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{Delete: w.delete, Patch: w.patch, Get: w.get, List: w.list}).Build()
	w.o = Options{
		Reader: w.api, Writer: w.api, Events: w, Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(w.metrics), Now: time.Now, Provider: w.storage,
		Rules:    storagefence.Rules{Driver: driver, Labels: []string{"storageos.com/fenced"}},
		Settings: storagefence.Settings{Poll: 5 * time.Second, Expiry: time.Hour, Timeout: 25 * time.Second, Retry: 5 * time.Second},
		Workers:  5, Cleanup: CleanupDelete,
	}
	return w
}

func (w *world) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf("%s %s: %s", regarding.(client.Object).GetName(), reason, fmt.Sprintf(note, args...)))
}

func (w *world) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if err := w.silence(ctx, fmt.Sprintf("%T %s", o, key.Name)); err != nil {
		return err
	}
	return c.Get(ctx, key, o, opts...)
}

func (w *world) list(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
	if err := w.silence(ctx, fmt.Sprintf("%T", o)); err != nil {
		return err
	}
	return c.List(ctx, o, opts...)
}

func (w *world) silence(ctx context.Context, read string) error {
	w.mu.Lock()
	deaf := w.deaf
	w.mu.Unlock()
	if deaf == nil || !deaf(read) {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// delete checks that deletions respect the invariants.
func (w *world) delete(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	if _, ok := o.(*fencing.NodeFence); ok { // changed by the test
		return c.Delete(ctx, o, opts...)
	}
	var d client.DeleteOptions
	d.ApplyOptions(opts)
	if d.Preconditions == nil || d.Preconditions.UID == nil || d.Preconditions.ResourceVersion == nil {
		w.t.Errorf("%T %s is deleted without preconditions", o, o.GetName())
	}
	there := o.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), there); err != nil {
		return err
	}
	if there.GetUID() != *d.Preconditions.UID {
		w.t.Errorf("%T %s of another UID is deleted", o, o.GetName())
	}
	kind := "pod"
	if _, ok := o.(*storagev1.VolumeAttachment); ok {
		kind = "attachment"
	} else if d.GracePeriodSeconds == nil || *d.GracePeriodSeconds != 0 {
		w.t.Errorf("pod %s is deleted with grace", o.GetName())
	}
	what := kind + " " + o.GetName()
	err := w.write(what, func() error { return c.Delete(ctx, o, opts...) })
	if err == nil && what == w.lost {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (w *world) patch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	data, _ := p.Data(o)
	if !strings.Contains(string(data), "resourceVersion") {
		w.t.Errorf("%s is patched without a resourceVersion", o.GetName())
	}
	return w.write("node "+o.GetName(), func() error { return c.Patch(ctx, o, p, opts...) })
}

func (w *world) write(what string, do func() error) error {
	w.mu.Lock()
	fail := w.fail
	w.mu.Unlock()
	if fail != nil {
		if err := fail(what); err != nil {
			return err
		}
	}
	err := do()
	if err == nil {
		w.mu.Lock()
		w.writes = append(w.writes, what)
		w.mu.Unlock()
	}
	return err
}

// log returns the writes since the last call, without events.
func (w *world) log() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.writes
	w.writes = nil
	return out
}

func (w *world) want(writes ...string) {
	w.t.Helper()
	if got := w.log(); !slices.Equal(got, writes) {
		w.t.Errorf("%v was written, want %v", got, writes)
	}
}

func (w *world) told(reason string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if strings.Contains(e, " "+reason+":") {
			n++
		}
	}
	return n
}

// pod creates a pod on n1 with these volumes of the driver, and their claims, volumes and attachments.
func (w *world) pod(name string, labels map[string]string, pvs ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name, UID: types.UID("uid-" + name), Labels: labels}, Spec: corev1.PodSpec{NodeName: "n1"}}
	for _, pv := range pvs {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: pv, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pv}}})
		w.volume(pv, driver)
	}
	w.create(p)
	return p
}

// volume creates a volume, attached to n1; it is healthy.
func (w *world) volume(name, of string) {
	if w.api.Get(w.t.Context(), types.NamespacedName{Name: name}, &corev1.PersistentVolume{}) == nil {
		return
	}
	w.storage.volumes["ns/"+name] = storagefence.Healthy
	w.create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: name}})
	w.create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: of, VolumeHandle: "ns/" + name}}}})
	w.create(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va-" + name, UID: types.UID("uid-va-" + name)},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: of, NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}})
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.api.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// taints changes the taints of n1.
func (w *world) taints(taints ...corev1.Taint) {
	w.t.Helper()
	var n corev1.Node
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Name: "n1"}, &n); err != nil {
		w.t.Fatal(err)
	}
	n.Spec.Taints = taints
	if err := w.api.Update(w.t.Context(), &n); err != nil {
		w.t.Fatal(err)
	}
}

// during runs a runner while f does, on virtual time. All due work is done when a pause in it ends.
func (w *world) during(f func()) {
	ctx, stop := context.WithCancel(w.t.Context())
	done := make(chan error)
	r := New(w.o)
	go func() { done <- r.Start(ctx) }()
	synctest.Wait()
	f()
	stop()
	if err := <-done; err != nil {
		w.t.Error(err)
	}
}

// setDeaf makes the API server leave those reads unanswered from now on.
func (w *world) setDeaf(deaf func(read string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf = deaf
}

func pass(d time.Duration) {
	time.Sleep(d) // of the bubble
	synctest.Wait()
}
