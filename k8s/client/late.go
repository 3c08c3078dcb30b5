package client

import (
	"net/http"
	"net/url"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// late is a kubeconfig that may still be missing or invalid: the program that writes it, such as the kubelet, may be
// slower than the agent.
type late struct {
	path string

	mu        sync.Mutex
	rc        *rest.Config // nil: it has not been read yet; guarded by mu
	namespace string       // guarded by mu
}

// Late creates a client for the kubeconfig at path. As long as the file cannot be read, each request and each call of
// [Client.Ready] tries to read it again; the request fails with the reason. metrics may be nil.
func Late(path string, metrics *Metrics) (*Client, error) {
	l := &late{path: path}
	if rc, err := l.read(); err == nil { // it is valid: requests name the server in their errors
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

// notKnownYet replaces the server's name in requests for which it is not known yet.
const notKnownYet = "not-known-yet"

// config returns a configuration for requests to the server that the kubeconfig names.
func (l *late) config(protos []string) *rest.Config {
	return &rest.Config{Host: "https://" + notKnownYet, Transport: &lateTransport{late: l, protos: protos}}
}

// Own returns a configuration for a caller that wants connections of its own, each of which carries one request at a
// time. The client need not be [Client.Ready].
func (c *Client) Own() *rest.Config { return c.late.config(oneAtATime) }

// oneAtATime lists the protocols by which a connection carries one request at a time.
var oneAtATime = []string{"http/1.1"}

// read returns the kubeconfig's content as soon as the kubeconfig and the files that it names can be used.
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

// lateTransport sends requests to the server that the kubeconfig names.
type lateTransport struct {
	late   *late
	protos []string

	mu     sync.Mutex
	server *url.URL          // guarded by mu
	next   http.RoundTripper // nil: the server is not known yet; guarded by mu
}

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

// WrappedRoundTripper lets client-go reach the transport, so that it can close its connections.
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
