package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/fencing-agent/fencing-agent/api/page"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statuspage"
)

// loopDead is how long the loop may be silent before /healthz fails: several times its longest wait, but less than a
// kubelet would call slow.
const loopDead = 5 * time.Second

// httpPart is the HTTP listener among the parts of the agent.
const httpPart = "http.address"

// startHTTP serves metrics, health and the debug state, unless switched off.
func (a *Agent) startHTTP(background spawn) (stop func()) {
	if a.cfg.HTTP.Address == "" {
		return func() {}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.opts.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", a.healthz)
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /debug/state", onLoopback(a.debugState))
	a.registerPage(mux)
	srv := a.serveHTTP(mux, background)
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			_ = srv.Close()
		}
	}
}

// serveHTTP serves at http.address as soon as that address is available: the agent must start without its pages.
func (a *Agent) serveHTTP(mux http.Handler, background spawn) *http.Server {
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelWarn)}
	var l net.Listener
	listen := func() (err error) {
		if l, err = net.Listen("tcp", a.cfg.HTTP.Address); err != nil {
			return fmt.Errorf("http.address: listen %s: %w", a.cfg.HTTP.Address, explainListen(err))
		}
		return nil
	}
	a.published.parts.Note(httpPart, listen())
	background(func(ctx context.Context) {
		if l == nil {
			a.published.parts.Keep(ctx, httpPart, listen)
		}
		if l == nil {
			return
		}
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("cannot serve metrics", "error", err)
		}
	})
	return srv
}

// registerPage adds the status page, unless it is switched off.
func (a *Agent) registerPage(mux *http.ServeMux) {
	if a.cfg.HTTP.Page == config.PageNone {
		return
	}
	statuspage.Register(mux, statuspage.Config{
		Status: a.status, Follow: a.published.server.Follow, History: a.published.history.recorder.Recent, Zone: time.Local,
		Anybody: a.cfg.HTTP.Page == config.PageAny,
	})
}

// serveWaiting serves metrics and health until the agent has what it needs to start. Until then the agent is healthy,
// so that it is not restarted, but not ready.
func (a *Agent) serveWaiting(problem *atomic.Pointer[string]) (stop func()) {
	if a.cfg.HTTP.Address == "" {
		return func() {}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.opts.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok, waiting for the list of members") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		text := "waiting for the list of members"
		if p := problem.Load(); p != nil {
			text += ": " + *p
		}
		http.Error(w, text, http.StatusServiceUnavailable)
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	srv := a.serveHTTP(mux, func(f func(context.Context)) { wg.Go(func() { f(ctx) }) })
	return func() {
		cancel()
		_ = srv.Close() // frees the address for the next listener; a probe that fails is repeated
		wg.Wait()
	}
}

// explainListen adds what to do.
func explainListen(err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err // for example a host name that cannot be resolved
	}
	switch errno {
	case syscall.EADDRINUSE:
		return fmt.Errorf("%w: another agent or program on this host? choose a free address, or \"\" for none", errno)
	case syscall.EADDRNOTAVAIL:
		return fmt.Errorf("%w: this node does not have that address; choose one that it has, or \"\" for none", errno)
	case syscall.EACCES:
		return fmt.Errorf("%w: ports below 1024 are for root; choose a higher one, or \"\" for none", errno)
	default:
		return errno
	}
}

// healthz fails when the deciding loop hangs; a node without quorum is healthy.
func (a *Agent) healthz(w http.ResponseWriter, _ *http.Request) {
	if at := boottime.Instant(a.life.alive.Load()); a.clock().Sub(at) > loopDead {
		http.Error(w, fmt.Sprintf("the deciding loop has not run for %v", a.clock().Sub(at).Round(time.Second)), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// readyz succeeds while the node is part of a side that may live, so that a rolling update stops at the first node
// that does not rejoin its group.
func (a *Agent) readyz(w http.ResponseWriter, _ *http.Request) {
	if f := a.published.facts.Load(); f == nil || !f.Ready() {
		http.Error(w, "no quorum", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// onLoopback serves addresses and the configuration only to this node, even if other nodes reach the listener: metrics
// may be scraped by other nodes, and both share a port.
func onLoopback(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !page.FromHere(r) {
			http.Error(w, "only for this node, as localhost or 127.0.0.1: run fencectl status -o json there", http.StatusForbidden)
			return
		}
		h(w, r)
	}
}

// debugState prints the status as JSON, and the effective configuration.
func (a *Agent) debugState(w http.ResponseWriter, _ *http.Request) {
	type state struct {
		Status json.RawMessage `json:"status"`
		Config any             `json:"config"`
	}
	s := state{Status: json.RawMessage("null"), Config: a.cfg}
	if st := a.status(); st != nil {
		b, err := protojson.Marshal(st)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		s.Status = b
	}
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(s) // the client went away
}
