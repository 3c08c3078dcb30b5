package apicheck

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/boottime/boottimetest"
)

// apiServer is an API server in a bubble: TLS and HTTP are real, the network consists of pipes.
type apiServer struct {
	handler atomic.Pointer[http.HandlerFunc]
	refuse  atomic.Bool
	dials   atomic.Int32
	pipes   *boottimetest.Pipes
	server  *httptest.Server
	release chan struct{} // closed at the end, for handlers that hang
}

var errRefused = errors.New("connection refused")

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{pipes: boottimetest.NewPipes(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443}), release: make(chan struct{})}
	s.answer(http.StatusOK)
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.handler.Load())(w, r) }))
	s.server.Listener.Close()
	s.server.Listener = s.pipes
	s.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.server.EnableHTTP2 = true // as an API server does
	s.server.StartTLS()
	t.Cleanup(func() {
		close(s.release)
		s.server.Close()
	})
	return s
}

func (s *apiServer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if s.refuse.Load() {
		return nil, errRefused
	}
	s.dials.Add(1)
	near, far := net.Pipe()
	if err := s.pipes.Hand(ctx, far); err != nil {
		return nil, err
	}
	return near, nil
}

func (s *apiServer) answer(status int) { s.answers(map[string]int{"/readyz": status}) }

// answers maps paths to statuses; others get 404.
func (s *apiServer) answers(status map[string]int) {
	s.handle(func(w http.ResponseWriter, r *http.Request) {
		code, ok := status[r.URL.Path]
		if !ok {
			code = http.StatusNotFound
		}
		w.Header().Set("Location", "/elsewhere") // it answers 404, so the server is reachable
		w.WriteHeader(code)
	})
}

func (s *apiServer) handle(h http.HandlerFunc) { s.handler.Store(&h) }

// hang accepts requests and answers none.
func (s *apiServer) hang() {
	s.handle(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-s.release:
		}
	})
}

func (s *apiServer) config() *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	return &rest.Config{Host: "https://127.0.0.1:6443", BearerToken: "secret", Dial: s.dial, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

type result struct {
	reachable bool
	at        time.Duration // since the start of the bubble
	told      time.Duration
}

const (
	testInterval = 5 * time.Second
	testTimeout  = 2 * time.Second
)

// start runs a checker until the bubble ends.
func start(t *testing.T, rc *rest.Config) <-chan result {
	t.Helper()
	began := time.Now()
	results := make(chan result, 100)
	k, err := newChecker(Config{
		Pace: NewPace(testInterval, testInterval), Timeout: testTimeout, Rand: rand.New(rand.NewPCG(1, 2)),
		Clock: boottimetest.Clock(0),
		OnResult: func(reachable bool, at boottime.Instant) {
			results <- result{reachable, time.Duration(at), time.Since(began)}
		},
	}, rc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return results
}

func TestStatusDecides(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers map[string]int
		want    bool
	}{
		{"ready", map[string]int{"/readyz": 200}, true},
		{"not ready", map[string]int{"/readyz": 500, "/livez": 200}, false},
		{"proxy without servers", map[string]int{"/readyz": 503}, false},
		{"bad gateway", map[string]int{"/readyz": 502}, false},
		{"token expired", map[string]int{"/readyz": 401}, true},
		{"throttled", map[string]int{"/readyz": 429}, true},
		{"redirected", map[string]int{"/readyz": 302}, false},
		{"readyz forbidden, alive", map[string]int{"/readyz": 403, "/livez": 200}, true},
		{"readyz forbidden, dead", map[string]int{"/readyz": 403, "/livez": 500}, false},
		{"both forbidden", map[string]int{"/readyz": 403, "/livez": 403}, true},
		{"readyz unknown, alive", map[string]int{"/livez": 200}, true},
		{"readyz unknown, dead", map[string]int{"/livez": 500}, false},
		{"both unknown", map[string]int{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer(t)
				s.answers(c.answers)
				if r := <-start(t, s.config()); r.reachable != c.want {
					t.Errorf("reachable %v, want %v", r.reachable, c.want)
				}
			})
		})
	}
}

// Guard: the timeout of a check; and a result is dated by the start of its check.
func TestSlowServerIsUnreachableAfterTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t)
		s.hang()
		results := start(t, s.config())
		for range 3 {
			if r := <-results; r.reachable || r.told-r.at != testTimeout {
				t.Errorf("%+v, want unreachable %v after the start", r, testTimeout)
			}
		}
		s.answer(http.StatusOK)
		if r := <-results; !r.reachable || r.told != r.at {
			t.Errorf("%+v, want reachable as soon as it answers", r)
		}
	})
}

// Guard: the timeout covers both requests of a check.
func TestSlowFallbackSharesTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t)
		s.handle(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(testTimeout * 2 / 3):
			case <-r.Context().Done():
			}
			w.WriteHeader(http.StatusForbidden)
		})
		if r := <-start(t, s.config()); r.reachable || r.told != testTimeout {
			t.Errorf("%+v, want unreachable after %v", r, testTimeout)
		}
	})
}

func TestRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t)
		results := start(t, s.config())
		for i, step := range []struct {
			edit func()
			want bool
		}{
			{func() {}, true},
			{func() { s.answer(http.StatusInternalServerError) }, false},
			{func() { s.answer(http.StatusOK) }, true},
			{s.hang, false},
			{func() { s.refuse.Store(true) }, false},
			{func() { s.refuse.Store(false) }, false}, // still hangs
			{func() { s.answer(http.StatusOK) }, true},
		} {
			if i > 0 { // the first check has begun
				step.edit()
			}
			if r := <-results; r.reachable != step.want {
				t.Errorf("step %d: %+v, want %v", i, r, step.want)
			}
		}
	})
}

// Guard: drop. A connection that failed may lead to a server that will never answer.
func TestConnectionsAreKeptUntilTheyFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t)
		results := start(t, s.config())
		for range 5 {
			<-results
		}
		if n := s.dials.Load(); n != 1 {
			t.Errorf("%d connections for 5 good checks, want 1", n)
		}
		s.answer(http.StatusServiceUnavailable)
		<-results
		<-results
		s.hang()
		<-results
		s.answer(http.StatusOK)
		<-results
		<-results
		if n := s.dials.Load(); n != 4 {
			t.Errorf("%d connections, want a new one after each of 3 failures", n)
		}
	})
}

func TestChecksAreJittered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t)
		results := start(t, s.config())
		last := <-results
		if last.at != 0 {
			t.Errorf("first check at %v, want at once", last.at)
		}
		seen := map[time.Duration]bool{}
		for range 50 {
			r := <-results
			gap := r.at - last.at
			if gap < testInterval*9/10 || gap > testInterval*11/10 {
				t.Errorf("gap of %v", gap)
			}
			seen[gap], last = true, r
		}
		if len(seen) < 40 {
			t.Errorf("only %d different gaps of 50", len(seen))
		}
	})
}

// Guard: a check that Run's end interrupts proves nothing about the server.
func TestEndIsNotUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t)
		s.hang()
		k, err := newChecker(Config{
			Pace: NewPace(testInterval, testInterval), Timeout: testTimeout, Clock: boottime.Now,
			OnResult: func(reachable bool, _ boottime.Instant) { t.Errorf("told %v", reachable) },
		}, s.config())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout/2)
		defer cancel()
		k.Run(ctx)
	})
}

// A server without a valid certificate is not the API server, whatever it answers.
func TestStrangerIsNotTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t)
		rc := s.config()
		rc.CAData = nil
		if r := <-start(t, rc); r.reachable {
			t.Error("reachable without a trusted certificate")
		}
	})
}

func TestCredentialsAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t)
		seen := make(chan *http.Request, 1)
		s.handle(func(_ http.ResponseWriter, r *http.Request) {
			seen <- r
		})
		<-start(t, s.config())
		if r := <-seen; r.Header.Get("Authorization") != "Bearer secret" || r.UserAgent() != "fencing-agent" || r.Proto != "HTTP/1.1" {
			t.Errorf("%s with %v", r.Proto, r.Header)
		}
	})
}
