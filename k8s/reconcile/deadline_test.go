package reconcile

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

// patience limits the test's wait for an answer that does not come. A request has to arrive within it.
const patience = time.Second

// writer is an API server that only takes writes.
type writer struct {
	client.Writer

	write func(context.Context) error
}

func (w writer) Patch(ctx context.Context, _ client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return w.write(ctx)
}

func (w writer) Delete(ctx context.Context, _ client.Object, _ ...client.DeleteOption) error {
	return w.write(ctx)
}

// timedWrites are the writes that a read of the Lease allows, with a deadline some time from now.
func timedWrites(w *world, within time.Duration) []recovery.Request {
	n := w.nodes["n4"]
	return []recovery.Request{
		{Kind: recovery.SetTaint, UID: string(n.UID), Version: n.ResourceVersion, Value: recovery.Fenced(deadBoot), Deadline: w.now.Add(within)},
		{Kind: recovery.DeletePod, Pod: recovery.Pod{Namespace: "default", Name: "db-0", UID: "u", Version: "1"}, Deadline: w.now.Add(within)},
	}
}

func (w *world) calls(to client.Writer) *calls {
	return &calls{options: &Options{Writer: to, Now: func() time.Time { return w.now }}, name: "n4", node: w.nodes["n4"]}
}

// Guard: a write is not sent after its deadline, and the controller does not wait for it any longer.
func TestWritesEndAtTheirDeadline(t *testing.T) {
	w := newWorld(t)
	var left time.Duration
	writes := 0
	c := w.calls(writer{write: func(ctx context.Context) error {
		at, _ := ctx.Deadline()
		left = time.Until(at)
		writes++
		return nil
	}})
	for _, r := range timedWrites(w, -time.Millisecond) {
		if got := c.do(t.Context(), r, question{}); got.Outcome != recovery.Late || writes != 0 {
			t.Errorf("%d after its deadline: %+v, %d writes", r.Kind, got, writes)
		}
	}
	for _, r := range timedWrites(w, time.Second) {
		if got := c.do(t.Context(), r, question{}); got.Outcome != recovery.Done || left > time.Second {
			t.Errorf("%d: %+v, %v is left", r.Kind, got, left)
		}
		r.Deadline = w.now.Add(time.Hour)
		if c.do(t.Context(), r, question{}); left > requestTimeout || left < requestTimeout/2 {
			t.Errorf("%d with time to spare: %v is left", r.Kind, left)
		}
	}
}

// Guard: an API server that does not exist is a failure, with or without a deadline.
func TestAWriteThatFailsInTime(t *testing.T) {
	w := newWorld(t)
	c := w.calls(writer{write: func(context.Context) error {
		return &url.Error{Op: "Patch", URL: "https://api", Err: syscall.ECONNREFUSED}
	}})
	for _, r := range timedWrites(w, time.Second) {
		if got := c.do(t.Context(), r, question{}); got.Outcome != recovery.Failed || !strings.Contains(got.Error, syscall.ECONNREFUSED.Error()) {
			t.Errorf("%d: %+v", r.Kind, got)
		}
	}
}

// Guard, with the controller's real client: a request that was sent and is not answered may have been carried out, so
// it has failed. A request that the client's rate limiter holds back, or that finds no connection, was not sent.
func TestWhatWasNotSentIsLate(t *testing.T) {
	arrived := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client is gone
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	w := newWorld(t)
	for i := range 2 {
		// The limit allows one request for each kind of object, and no other for a long time.
		api, err := client.New(&rest.Config{Host: server.URL, QPS: 0.001, Burst: 1}, client.Options{Scheme: scheme, Mapper: mapper})
		if err != nil {
			t.Fatal(err)
		}
		c := w.calls(api)
		r := timedWrites(w, patience)[i]
		if got := c.do(t.Context(), r, question{}); got.Outcome != recovery.Failed || len(arrived) != 1 {
			t.Errorf("%d is not answered: %+v, %d have arrived", r.Kind, got, len(arrived))
		}
		if got := c.do(t.Context(), r, question{}); got.Outcome != recovery.Late || len(arrived) != 1 {
			t.Errorf("%d is held back: %+v, %d have arrived", r.Kind, got, len(arrived))
		}
		<-arrived
	}
	c := w.calls(writer{write: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	for _, r := range timedWrites(w, time.Millisecond) {
		if got := c.do(t.Context(), r, question{}); got.Outcome != recovery.Late {
			t.Errorf("%d finds no connection: %+v", r.Kind, got)
		}
	}
}

// Guard: an Event reports an API server that is too slow for the barrier, once.
func TestASlowAPIServerIsTold(t *testing.T) {
	w := newWorld(t)
	slow := true
	r := w.reconciler(func(o *Options) { o.Reader = slowLeases{w, &slow} })
	w.ready(corev1.ConditionUnknown)
	w.tell(r, "n1", true)
	w.tell(r, "n2", true)
	w.run(r, time.Minute)
	told := 0
	for _, e := range w.events {
		if e == "DeathProven n4 the API server takes longer than 1s to answer: trying again" {
			told++
		}
	}
	// One phase is "proven", the other one shows the wait for the API server.
	if told < 1 || told > 2 || w.taint() != "" {
		t.Errorf("told %d times, taint %q: %q", told, w.taint(), w.events)
	}
	if n := w.counts["get leases in "+corev1.NamespaceNodeLease]; n > 20*3 {
		t.Errorf("%d Leases are read in a minute", n)
	}
	slow = false
	if w.run(r, 3*time.Second); w.taint() != recovery.Fenced(deadBoot) {
		t.Errorf("when it is quick: %q", w.events)
	}
}

// slowLeases takes a while for the Lease of n4.
type slowLeases struct {
	*world

	slow *bool
}

func (s slowLeases) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if key.Name == "n4" && key.Namespace == corev1.NamespaceNodeLease && *s.slow {
		s.now = s.now.Add(1200 * time.Millisecond)
	}
	return s.world.Get(ctx, key, o, opts...)
}
