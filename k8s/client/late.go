package client

import (
	"net/http"
	"net/url"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// late is a kubeconfig that need not be there yet, nor in order: what writes it, such as the kubelet, may be slower than the
// agent.
type late struct {
	path string

	mu        sync.Mutex
	rc        *rest.Config // nil: it could not be read yet; guarded by mu
	namespace string       // guarded by mu
}

// Late makes a client of the kubeconfig at path. Until that can be read each request, and [Client.Ready], reads it again; the request
// fails with what is wrong with it. metrics may be nil.
func Late(path string, metrics *Metrics) (*Client, error) {
	l := &late{path: path}
	if rc, err := l.read(); err == nil { // it is in order: requests name the server in their errors
		c, err := NewFor(rc, metrics)
		if err == nil {
			c.namespace = l.namespace
		}
		return c, err
	}
	c, err := NewFor(l.config(nil), metrics)
	if err != nil {
		return nil, err
	}
	c.late = l
	return c, nil
}

// notKnownYet stands in place of the server's name in requests that have not found it out.
const notKnownYet = "not-known-yet"

// config is one for requests that go where the kubeconfig says.
func (l *late) config(protos []string) *rest.Config {
	return &rest.Config{Host: "https://" + notKnownYet, Transport: &lateTransport{late: l, protos: protos}}
}

// Own is a configuration for connections of the caller's own, which carry one request at a time, of a client that is not [Client.Ready].
func (c *Client) Own() *rest.Config { return c.late.config(oneAtATime) }

// oneAtATime are the protocols by which a connection carries one request at a time.
var oneAtATime = []string{"http/1.1"}

// read returns what the kubeconfig says, from when it and the files that it names can be used.
func (l *late) read() (*rest.Config, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rc != nil {
		return l.rc, nil
	}
	rc, err := Load(l.path)
	if err == nil {
		_, err = rest.TransportFor(rc)
	}
	if err == nil {
		_, _, err = rest.DefaultServerUrlFor(rc)
	}
	if err != nil {
		return nil, err
	}
	l.rc, l.namespace = rc, namespaceOf(l.path)
	return rc, nil
}

// lateTransport sends requests to where the kubeconfig says.
type lateTransport struct {
	late   *late
	protos []string

	mu     sync.Mutex
	server *url.URL          // guarded by mu
	next   http.RoundTripper // nil: it is not known yet; guarded by mu
}

// RoundTrip implements http.RoundTripper.
func (t *lateTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	server, next, err := t.known()
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // nothing was sent
		}
		return nil, err
	}
	r := req.Clone(req.Context())
	r.URL.Scheme, r.URL.Host, r.Host = server.Scheme, server.Host, ""
	r.URL.Path = strings.TrimSuffix(server.Path, "/") + r.URL.Path
	return next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go see through to the transport: who drops connections has to reach them.
func (t *lateTransport) WrappedRoundTripper() http.RoundTripper {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next
}

func (t *lateTransport) known() (*url.URL, http.RoundTripper, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next != nil {
		return t.server, t.next, nil
	}
	rc, err := t.late.read()
	if err != nil {
		return nil, nil, err
	}
	rc = rest.CopyConfig(rc)
	rc.NextProtos = t.protos
	server, _, err := rest.DefaultServerUrlFor(rc)
	if err != nil {
		return nil, nil, err
	}
	next, err := rest.TransportFor(rc)
	if err != nil {
		return nil, nil, err
	}
	t.server, t.next = server, next
	return server, next, nil
}
