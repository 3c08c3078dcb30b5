package kube

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

// The other tests rely on what these tests check: the behaviour of the control plane and the proxy.

func client(t *testing.T, c *rest.Config) *kubernetes.Clientset {
	t.Helper()
	k, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// namespace creates a namespace for the time of the test.
func namespace(t *testing.T, p *controlplane.ControlPlane, name string) {
	t.Helper()
	spaces := client(t, p.Admin()).CoreV1().Namespaces()
	if _, err := spaces.Create(t.Context(), &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name}}, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func configMap(name string) *core.ConfigMap {
	return &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: name}}
}

// A watch from before a compaction and a restart ends with 410 Gone.
func TestWatchExpires(t *testing.T) {
	p := plane(t)
	namespace(t, p, "expiry")
	maps := client(t, p.Admin()).CoreV1().ConfigMaps("expiry")
	first, err := maps.Create(t.Context(), configMap("first"), meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Create(t.Context(), configMap("second"), meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Before that, the server continues from that revision.
	w, err := maps.Watch(t.Context(), meta.ListOptions{ResourceVersion: first.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	if e := <-w.ResultChan(); e.Type != watch.Added {
		t.Errorf("event %v, want that of the second object", e)
	}
	w.Stop()

	if _, err := p.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.KillServer(); err != nil {
		t.Fatal(err)
	}
	serverUp(t, p)
	w, err = maps.Watch(t.Context(), meta.ListOptions{ResourceVersion: first.ResourceVersion})
	if err == nil {
		e := <-w.ResultChan()
		w.Stop()
		err = apierrors.FromObject(e.Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("watch from before the compaction: %v, want 410 Gone", err)
	}
}

func TestProxyLosesRepliesOrRequests(t *testing.T) {
	p := plane(t)
	namespace(t, p, "lost")
	x := newProxy(t, p)
	through := p.Admin()
	through.Host, through.Timeout = x.URL(), time.Minute
	maps := client(t, through).CoreV1().ConfigMaps("lost")
	direct := client(t, p.Admin()).CoreV1().ConfigMaps("lost")
	writes := func(r *http.Request) bool { return r.Method == http.MethodPost }

	x.Fault(controlplane.LoseReplies(writes))
	if _, err := maps.Create(t.Context(), configMap("reply"), meta.CreateOptions{}); err == nil {
		t.Error("the reply was not lost")
	}
	if _, err := direct.Get(t.Context(), "reply", meta.GetOptions{}); err != nil {
		t.Errorf("a request whose reply is lost is carried out: %v", err)
	}
	x.Fault(controlplane.LoseRequests(writes))
	if _, err := maps.Create(t.Context(), configMap("request"), meta.CreateOptions{}); err == nil {
		t.Error("the request was not lost")
	}
	if _, err := direct.Get(t.Context(), "request", meta.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a lost request is not carried out: %v", err)
	}
	if list, err := maps.List(t.Context(), meta.ListOptions{}); err != nil || len(list.Items) == 0 {
		t.Errorf("requests that do not match pass: %v", err)
	}
}

// Events of a watch pass the proxy when they happen, but not before a thaw.
func TestProxyPassesWatches(t *testing.T) {
	p := plane(t)
	namespace(t, p, "watched")
	x := newProxy(t, p)
	through := p.Admin()
	through.Host = x.URL()
	w, err := client(t, through).CoreV1().ConfigMaps("watched").Watch(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	direct := client(t, p.Admin()).CoreV1().ConfigMaps("watched")
	create := func(name string) {
		t.Helper()
		if _, err := direct.Create(t.Context(), configMap(name), meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	comes := func(name string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		select {
		case e := <-w.ResultChan():
			if m, ok := e.Object.(*core.ConfigMap); !ok || m.Name != name {
				t.Fatalf("event %v, want one about %s", e, name)
			}
		case <-ctx.Done():
			t.Fatalf("no event about %s", name)
		}
	}
	create("one")
	comes("one")
	x.Freeze()
	create("two")
	brief, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := client(t, through).CoreV1().ConfigMaps("watched").Get(brief, "two", meta.GetOptions{}); err == nil {
		t.Error("an answer came through a frozen network")
	}
	select {
	case e := <-w.ResultChan():
		t.Errorf("an event came through a frozen network: %v", e)
	default:
	}
	x.Thaw()
	comes("two")
	x.Cut()
	if e, ok := <-w.ResultChan(); ok {
		t.Errorf("event %v after the connection was cut", e)
	}
}

// The audit log contains every request once, and does so before the client has the answer.
func TestRequestsAreCounted(t *testing.T) {
	p := plane(t)
	c := p.Admin()
	c.UserAgent = "to-be-counted"
	k := client(t, c)
	mine := func(r controlplane.Request) bool { return r.UserAgent == c.UserAgent }
	w, err := k.CoreV1().Nodes().Watch(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for range 3 {
		if _, err := k.CoreV1().Nodes().List(t.Context(), meta.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.CoreV1().Nodes().Get(t.Context(), "nobody", meta.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("error %v", err)
	}
	requests, err := p.Requests(mine)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, r := range requests {
		count[r.Verb]++
		if r.Object.Resource != "nodes" || r.User.Name != "admin" {
			t.Errorf("request %v", r)
		}
		if r.Verb == "get" && (r.Response.Code != http.StatusNotFound || r.Object.Name != "nobody") {
			t.Errorf("request %v", r)
		}
	}
	if len(requests) != 5 || count["list"] != 3 || count["get"] != 1 || count["watch"] != 1 {
		t.Errorf("requests %v", requests)
	}
}

func TestKubectlChecksManifests(t *testing.T) {
	p := plane(t)
	apply := func(manifest string) error {
		out, err := p.Kubectl(t.Context(), manifest, "apply", "--server-side", "--dry-run=server", "-f", "-")
		if err == nil && !strings.Contains(out, "serverside-applied (server dry run)") {
			err = errors.New(out)
		}
		return err
	}
	good := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: default}\ndata: {a: b}\n"
	if err := apply(good); err != nil {
		t.Error(err)
	}
	if err := apply(strings.Replace(good, "\ndata:", "\ndada:", 1)); err == nil || !strings.Contains(err.Error(), "dada") {
		t.Errorf("a field that does not exist: %v", err)
	}
}
