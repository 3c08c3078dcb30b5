package client

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Guard: a kubeconfig may be missing when the agent starts, or half written, or name files that do not exist yet. Then
// each request, and each call of Ready, reads it again. Once it can be read, the client is like any other.
func TestKubeconfigThatComesLater(t *testing.T) {
	var got *http.Request
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1"}`)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	dir := t.TempDir()
	path, ca := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "ca.crt")
	c, err := Late(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Ready() == nil || !strings.Contains(c.Host(), path) {
		t.Errorf("ready %v, host %q", c.Ready(), c.Host())
	}
	apart, err := c.Apart()
	if err != nil {
		t.Fatal(err)
	}
	list := func(c *Client) error {
		r, err := c.For(Core)
		if err != nil {
			return err
		}
		return r.Get().Resource("nodes").MaxRetries(0).Do(t.Context()).Error()
	}
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: k, cluster: {server: '%s/proxy/', certificate-authority: %s}}]\n"+
		"users: [{name: u, user: {token: secret}}]\ncontexts: [{name: c, context: {cluster: k, user: u, namespace: fencing}}]\n", s.URL, ca)
	for _, c2 := range []struct{ name, text, want string }{
		{"missing", "", "no such file"},
		{"empty", "\n", "no configuration has been provided"},
		{"half of it", text[:len(text)/3], "kubeconfig " + path},
		{"a CA that is not there", text, "ca.crt"},
	} {
		if c2.text != "" {
			if err := os.WriteFile(path, []byte(c2.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for name, err := range map[string]error{"a request": list(c), "apart": list(apart), "ready": c.Ready()} {
			if err == nil || !strings.Contains(err.Error(), c2.want) {
				t.Errorf("%s, %s: %v, want %q", c2.name, name, err, c2.want)
			}
		}
		if got != nil {
			t.Errorf("%s: request %v", c2.name, got)
		}
	}
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct {
		c     *Client
		proto int
	}{{c, 2}, {apart, 1}, {c, 2}} {
		if err := list(way.c); err != nil {
			t.Fatal(err)
		}
		if got.URL.Path != "/proxy/api/v1/nodes" || got.Header.Get("Authorization") != "Bearer secret" || got.UserAgent() != userAgent || got.ProtoMajor != way.proto ||
			"https://"+got.Host != s.URL || way.c.Namespace() != "fencing" || way.c.Ready() != nil {
			t.Errorf("%s at %s by HTTP/%d, %v; namespace %q", got.URL, got.Host, got.ProtoMajor, got.Header, way.c.Namespace())
		}
	}
}

// If a kubeconfig is valid at the start, errors name its server.
func TestKubeconfigInOrderNamesItsServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
		"users: [{name: u, user: {token: secret}}]\ncontexts: [{name: c, context: {cluster: k, user: u, namespace: fencing}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Late(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.For(Core)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Get().Resource("nodes").MaxRetries(0).Do(t.Context()).Error(); err == nil || !strings.Contains(err.Error(), "https://127.0.0.1:1/") {
		t.Errorf("%v does not name the server", err)
	}
	if c.Ready() != nil || c.Namespace() != "fencing" {
		t.Errorf("ready %v, namespace %q", c.Ready(), c.Namespace())
	}
}
