package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// Proxy is between clients and the API server, and behaves like a bad network or an overloaded server. It has an
// address and a certificate that the clients trust, and passes on tokens. Without a fault it changes nothing.
//
// There are faults of single requests ([Proxy.Fault]) and of the network ([Proxy.Freeze], [Proxy.Refuse], [Proxy.Cut]).
type Proxy struct {
	url      string
	server   *http.Server
	listener *gateListener
	served   chan error
	fault    atomic.Pointer[Fault]
}

// Fault decides what happens to one request. forward passes it to the API server, and passes the answer to the client.
type Fault func(w http.ResponseWriter, r *http.Request, forward http.Handler)

// NewProxy starts a proxy. The caller closes it.
func NewProxy(p *ControlPlane) (*Proxy, error) {
	target, err := url.Parse(p.URL())
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(&rest.Config{Host: p.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: p.keys.ca}})
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	x := &Proxy{
		url: "https://" + inner.Addr().String(), served: make(chan error, 1),
		listener: &gateListener{Listener: inner, conns: map[*gateConn]bool{}, open: closedChannel()},
	}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // events of a watch are sent at once
		ErrorLog:      log.New(io.Discard, "", 0),
		// If the server is unreachable, the client gets no answer. A 502 is something that an API server never sends.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	x.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if f := x.fault.Load(); f != nil {
				(*f)(w, r, forward)
				return
			}
			forward.ServeHTTP(w, r)
		}),
		ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	go func() {
		x.served <- x.server.ServeTLS(x.listener, filepath.Join(p.config.Dir, serverCertFile), filepath.Join(p.config.Dir, serverKeyFile))
	}()
	return x, nil
}

// URL returns the address that clients use in place of the API server's address.
func (x *Proxy) URL() string { return x.url }

// Fault makes the proxy call f for every request; with nil, all requests pass.
func (x *Proxy) Fault(f Fault) {
	if f == nil {
		x.fault.Store(nil)
		return
	}
	x.fault.Store(&f)
}

// Freeze stops the network: no byte of any connection arrives, in either direction, and nothing is refused. After Thaw
// all delayed bytes arrive.
func (x *Proxy) Freeze() { x.listener.freeze() }

// Thaw ends Freeze and Refuse.
func (x *Proxy) Thaw() { x.listener.thaw() }

// Refuse resets all connections, and every new one, until [Proxy.Thaw].
func (x *Proxy) Refuse() { x.listener.refuse() }

// Cut resets all connections; new ones are accepted.
func (x *Proxy) Cut() { x.listener.cut() }

// Close ends all connections and waits for the proxy's goroutine.
func (x *Proxy) Close() error {
	x.listener.refuse()
	err := x.server.Close()
	<-x.served // http.ErrServerClosed
	return err
}

// Delay adds this time to the time of every answer.
func Delay(d time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if wait(r.Context(), d) {
			forward.ServeHTTP(w, r)
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Answer makes the proxy answer every request itself, like a server that is overloaded or has lost its data. retryAfter
// is in seconds, and may be empty.
func Answer(status int, retryAfter string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
	}
}

// LoseReplies lets the server carry out the requests for which match is true, and loses its answers: the client cannot
// know whether a request was carried out.
func LoseReplies(match func(*http.Request) bool) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if !match(r) {
			forward.ServeHTTP(w, r)
			return
		}
		forward.ServeHTTP(&unseen{header: http.Header{}}, r)
		panic(http.ErrAbortHandler)
	}
}

// LoseRequests loses the requests for which match is true before the server receives them.
func LoseRequests(match func(*http.Request) bool) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if match(r) {
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	}
}

// unseen receives an answer and discards it.
type unseen struct{ header http.Header }

func (u *unseen) Header() http.Header         { return u.header }
func (u *unseen) Write(b []byte) (int, error) { return len(b), nil }
func (u *unseen) WriteHeader(int)             {}
