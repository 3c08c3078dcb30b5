package client

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

func TestDescribe(t *testing.T) {
	for _, c := range []struct{ method, url, want string }{
		{"GET", "/api/v1/nodes?labelSelector=a%3Db", "list nodes"},
		{"GET", "/api/v1/nodes/n1", "get nodes"},
		{"GET", "/api/v1/nodes?watch=true&fieldSelector=x", "watch nodes"},
		{"PATCH", "/api/v1/nodes/n1", "patch nodes"},
		{"PATCH", "/api/v1/nodes/n1/status", "patch nodes/status"},
		{"POST", "/api/v1/namespaces/default/events", "create events"},
		{"PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", "update leases"},
		{"GET", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", "get leases"},
		{"DELETE", "/api/v1/namespaces/a/configmaps/c", "delete configmaps"},
		{"GET", "/api/v1/namespaces/a", "get namespaces"},
		{"GET", "/readyz", "get readyz"},
		{"GET", "/", "get "},
		{"GET", "/api", "get api"},
	} {
		verb, resource := Describe(httptest.NewRequest(c.method, c.url, nil))
		if got := verb + " " + resource; got != c.want {
			t.Errorf("%s %s: %q, want %q", c.method, c.url, got, c.want)
		}
	}
}

// Guard: a pause is never shorter than the server asked for, and never zero.
func TestBackoff(t *testing.T) {
	b := Backoff{First: time.Second, Most: 30 * time.Second, Rand: rand.New(rand.NewPCG(1, 2))}
	most := time.Second
	for range 10 {
		d := b.Next(errors.New("no route"))
		if d < most/2 || d > most {
			t.Errorf("pause %v, want %v..%v", d, most/2, most)
		}
		most = min(2*most, b.Most)
	}
	throttled := apierrors.NewTooManyRequests("slow down", 40)
	if d := b.Next(throttled); d < 40*time.Second || d > 50*time.Second {
		t.Errorf("pause %v after Retry-After: 40", d)
	}
	b.Reset()
	if d := b.Next(nil); d > time.Second {
		t.Errorf("pause %v after a reset", d)
	}
}

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: k, cluster: {server: "SERVER"}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: c, context: {cluster: k, user: u, namespace: fencing}}]
`

func TestRequestsAreCountedAndSigned(t *testing.T) {
	var agent, accept string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agent, accept = r.UserAgent(), r.Header.Get("Accept")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n1"}}]}`)
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(kubeconfig, "SERVER", server.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	c, err := New(path, NewMetrics(reg))
	if err != nil {
		t.Fatal(err)
	}
	if c.Namespace() != "fencing" || c.Host() != server.URL {
		t.Errorf("namespace %q, host %q", c.Namespace(), c.Host())
	}
	core, err := c.For(Core)
	if err != nil {
		t.Fatal(err)
	}
	list := func(ctx context.Context) error {
		return core.Get().Resource("nodes").MaxRetries(0).Do(ctx).Into(&NodeList{})
	}
	if err := list(t.Context()); err != nil {
		t.Fatal(err)
	}
	if agent != userAgent || !strings.HasPrefix(accept, protobuf) {
		t.Errorf("user agent %q, accepts %q", agent, accept)
	}
	server.Close()
	if list(t.Context()) == nil {
		t.Error("no error from a server that is gone")
	}
	want := "# HELP fencing_agent_kube_requests_total Requests to the Kubernetes API by verb (get, list, watch, create, update, patch, delete), resource, and status code; code is error if no answer came.\n" +
		"# TYPE fencing_agent_kube_requests_total counter\n" +
		"fencing_agent_kube_requests_total{code=\"200\",resource=\"nodes\",verb=\"list\"} 1\n" +
		"fencing_agent_kube_requests_total{code=\"error\",resource=\"nodes\",verb=\"list\"} 1\n"
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestConfigurationErrorsSayWhatToDo(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := New("", nil); err == nil || !strings.Contains(err.Error(), "set kubernetes.kubeconfig") {
		t.Error(err)
	}
	if _, err := New("/nowhere", nil); err == nil || !strings.Contains(err.Error(), "kubeconfig /nowhere") {
		t.Error(err)
	}
}

// Requests that must not fail together with a watch's connection have connections of their own.
func TestApart(t *testing.T) {
	var mu sync.Mutex
	versions, connections := map[string]int{}, map[string]string{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		versions[r.Header.Get("Test")], connections[r.Header.Get("Test")] = r.ProtoMajor, r.RemoteAddr
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1"}`)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	c, err := NewFor(&rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.namespace = "here"
	own, err := c.Apart()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*Client{"shared": c, "apart": own} {
		r, err := c.For(Core)
		if err == nil {
			err = r.Get().Resource("nodes").SetHeader("Test", name).Do(t.Context()).Error()
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if versions["shared"] != 2 || versions["apart"] != 1 || connections["shared"] == connections["apart"] || own.Namespace() != "here" {
		t.Errorf("versions %v, connections %v, namespace %q", versions, connections, own.Namespace())
	}
}
