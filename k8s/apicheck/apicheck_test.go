package apicheck

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/client"
)

func kubeconfig(t *testing.T, server, extra string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: %q%s}}]
users: [{name: u, user: {token: secret}}]
`, server, extra)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func config(path string, onResult func(bool, boottime.Instant)) Config {
	return Config{Kubeconfig: path, Pace: NewPace(50*time.Millisecond, 50*time.Millisecond), Timeout: 50 * time.Millisecond, Clock: boottime.Now, OnResult: onResult}
}

func TestNewRefuses(t *testing.T) {
	good := config(kubeconfig(t, "https://127.0.0.1:1", ""), func(bool, boottime.Instant) {})
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, c := range []struct {
		name, want string
		edit       func(*Config)
	}{
		{"no clock", "mandatory", func(c *Config) { c.Clock = nil }},
		{"no receiver", "mandatory", func(c *Config) { c.OnResult = nil }},
		{"no timeout", "must be positive", func(c *Config) { c.Timeout = 0 }},
		{"timeout beyond the interval", "not exceed", func(c *Config) { c.Timeout = time.Hour }},
		{"missing kubeconfig", "no such file", func(c *Config) { c.Kubeconfig = "/nonexistent/kubeconfig" }},
		{"garbage kubeconfig", garbage, func(c *Config) { c.Kubeconfig = garbage }},
		{"not in a cluster", "set kubernetes.kubeconfig", func(c *Config) { c.Kubeconfig = "" }},
		{"missing CA", "ca.crt", func(c *Config) {
			c.Kubeconfig = kubeconfig(t, "https://127.0.0.1:1", ", certificate-authority: /nonexistent/ca.crt")
		}},
		{"CA that is none", "certificate", func(c *Config) {
			c.Kubeconfig = kubeconfig(t, "https://127.0.0.1:1", ", certificate-authority-data: aGVsbG8=")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := good
			c.edit(&bad)
			if _, err := New(bad); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("New: %v, want %q", err, c.want)
			}
		})
	}
}

// Guard: while its kubeconfig cannot be read, an API server counts as unreachable, and the start does not fail.
// Connections are still dropped after a check that fails.
func TestKubeconfigThatComesLater(t *testing.T) {
	var mu sync.Mutex
	status, from := http.StatusOK, map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		from[r.RemoteAddr] = true
		w.WriteHeader(status)
	}))
	defer s.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	late, err := client.Late(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := config(path, func(bool, boottime.Instant) {})
	c.Timeout, c.Pace = 5*time.Second, NewPace(5*time.Second, 5*time.Second)
	if _, err := New(c); err == nil {
		t.Error("without a client that reads it later it is an error")
	}
	c.Client = late
	// A file that the kubeconfig names may be half written.
	ca := filepath.Join(t.TempDir(), "ca.crt")
	text, err := os.ReadFile(kubeconfig(t, "https://127.0.0.1:1", ", certificate-authority: "+ca))
	if err := errors.Join(err, os.WriteFile(path, text, 0o600), os.WriteFile(ca, []byte("-----BEGIN"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := New(c); err != nil {
		t.Errorf("the start ends: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	k, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.check(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("reachable without a kubeconfig: %v", err)
	}
	text, err = os.ReadFile(kubeconfig(t, s.URL, ""))
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, now := range []int{200, 200, 500, 200} {
		mu.Lock()
		status = now
		mu.Unlock()
		if err := k.check(t.Context()); (err == nil) != (now == 200) {
			t.Errorf("status %d: %v", now, err)
		}
	}
	if len(from) != 2 {
		t.Errorf("%d connections, want a new one after the check that failed", len(from))
	}
}

func TestInClusterWithoutToken(t *testing.T) {
	if _, err := os.Stat("/var/run/secrets/kubernetes.io/serviceaccount/token"); err == nil {
		t.Skip("this is a pod with a service account")
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "6443")
	if _, err := New(config("", func(bool, boottime.Instant) {})); err == nil || !strings.Contains(err.Error(), "automountServiceAccountToken") {
		t.Errorf("New: %v", err)
	}
}

func TestUnprovenServerIsWarnedAbout(t *testing.T) {
	for server, extra := range map[string]string{"http://127.0.0.1:1": "", "https://127.0.0.1:1": ", insecure-skip-tls-verify: true"} {
		var out bytes.Buffer
		c := config(kubeconfig(t, server, extra), func(bool, boottime.Instant) {})
		c.Logger = slog.New(slog.NewTextHandler(&out, nil))
		if _, err := New(c); err != nil || !strings.Contains(out.String(), "check of the API server cannot distinguish the server") {
			t.Errorf("%s: %v, log %q", server, err, out.String())
		}
	}
}

// expect waits for a result, however many other results come before it.
func expect(t *testing.T, results <-chan bool, want bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case got := <-results:
			if got == want {
				return
			}
		case <-deadline:
			t.Fatalf("no result %v within 30s", want)
		}
	}
}

// The whole way over real sockets, with a kubeconfig: an API server that starts late, works, fails, stops and returns.
func TestOverSockets(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	var status atomic.Int32
	status.Store(http.StatusOK)
	serve := func(l net.Listener) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
		s.Listener.Close()
		s.Listener = l
		s.StartTLS()
		return s
	}
	server := serve(listener)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	path := kubeconfig(t, "https://"+address, ", certificate-authority-data: "+base64.StdEncoding.EncodeToString(ca))

	results := make(chan bool)
	ctx, cancel := context.WithCancel(t.Context())
	c := config(path, func(reachable bool, at boottime.Instant) {
		if age := boottime.Now().Sub(at); age < 0 {
			t.Errorf("a result from the future: %v", age)
		}
		select {
		case results <- reachable:
		case <-ctx.Done():
		}
	})
	c.Timeout, c.Pace = time.Second, NewPace(time.Second, time.Second)
	k, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx)
	}()
	expect(t, results, true)
	status.Store(http.StatusInternalServerError)
	expect(t, results, false)
	status.Store(http.StatusOK)
	expect(t, results, true)
	server.Close() // connections are refused from now on
	expect(t, results, false)
	if listener, err = net.Listen("tcp", address); err == nil { // unless another program has taken the port meanwhile
		server = serve(listener)
		expect(t, results, true)
		server.Close()
	}
	cancel()
	<-done
}
