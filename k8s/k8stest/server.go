package k8stest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/fencing-agent/fencing-agent/boottime/boottimetest"
	"github.com/fencing-agent/fencing-agent/k8s/client"
)

// Request is a request that the server got.
type Request struct {
	Verb, Resource string
	Query          string
	At             time.Time
}

// Server is an API server.
type Server struct {
	server  *httptest.Server
	pipes   *boottimetest.Pipes
	decoder runtime.Decoder

	mu        sync.Mutex // guards the fields below
	version   int
	oldest    int // a watch from an earlier version is refused
	nodes     map[string]*corev1.Node
	events    []*corev1.Event
	history   []change
	watchers  map[chan struct{}]struct{} // closed to end a watch
	wake      chan struct{}              // closed and replaced with each change
	requests  []Request
	refuse    bool
	open      map[net.Conn]struct{}
	intercept func(http.ResponseWriter, *http.Request) bool
}

// change is one entry of the history of Nodes.
type change struct {
	version int
	kind    string // ADDED, MODIFIED, DELETED
	node    *corev1.Node
}

// New starts a server that lives as long as the test.
func New(tb testing.TB) *Server {
	tb.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		tb.Fatal(err)
	}
	s := &Server{
		pipes: boottimetest.NewPipes(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443}), version: 100,
		decoder:  serializer.NewCodecFactory(scheme).UniversalDeserializer(),
		nodes:    map[string]*corev1.Node{},
		watchers: map[chan struct{}]struct{}{}, wake: make(chan struct{}), open: map[net.Conn]struct{}{},
	}
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	if err := s.server.Listener.Close(); err != nil {
		tb.Fatal(err)
	}
	s.server.Listener = s.pipes
	s.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.server.Start()
	tb.Cleanup(func() {
		s.EndWatches()
		s.Refuse(true) // accept no new connections, and close the open ones
		s.server.Close()
	})
	return s
}

var errRefused = errors.New("connection refused")

func (s *Server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	s.mu.Lock()
	refuse := s.refuse
	if !refuse {
		s.open[near], s.open[far] = struct{}{}, struct{}{}
	}
	s.mu.Unlock()
	if refuse {
		return nil, errRefused
	}
	switch err := s.pipes.Hand(ctx, far); {
	case err == nil:
		return near, nil
	case errors.Is(err, net.ErrClosed):
		return nil, errRefused
	default:
		return nil, err
	}
}

// Client returns a client of the server.
func (s *Server) Client(tb testing.TB, m *client.Metrics) *client.Client {
	tb.Helper()
	c, err := client.NewFor(&rest.Config{Host: "http://127.0.0.1:6443", Dial: s.dial}, m)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// Refuse makes the server unreachable, and cuts all open connections, or makes it reachable again.
func (s *Server) Refuse(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = on
	if on {
		for c := range s.open {
			_ = c.Close() // a pipe
			delete(s.open, c)
		}
	}
}

// Intercept registers a function that gets every request first. If it returns true, it has answered the request.
func (s *Server) Intercept(f func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

// Requests returns the requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Counts returns the number of requests so far by "verb resource".
func (s *Server) Counts() map[string]int {
	counts := map[string]int{}
	for _, r := range s.Requests() {
		counts[r.Verb+" "+r.Resource]++
	}
	return counts
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	verb, resource := client.Describe(r)
	s.mu.Lock()
	s.requests = append(s.requests, Request{verb, resource, r.URL.RawQuery, time.Now()})
	intercept := s.intercept
	s.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	switch resource {
	case "nodes":
		s.serveNodes(w, r, verb)
	case "events":
		s.serveEvents(w, r, verb)
	default:
		Fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no such resource")
	}
}

// Fail answers with a Status.
func Fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	reply(w, code, failure(code, reason, message))
}

// Throttle answers 429 and asks the client to wait for some seconds, with a Status or in plain text: an API server does
// both.
func Throttle(w http.ResponseWriter, seconds int, plain bool) {
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	if plain {
		http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
		return
	}
	st := failure(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "slow down")
	st.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(seconds)} //nolint:gosec // a small number in tests
	reply(w, http.StatusTooManyRequests, st)
}

func failure(code int, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: message, //nolint:gosec // three digits
	}
}

func reply(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // the peer may be gone
}
