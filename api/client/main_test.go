package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime/boottimetest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(followVariable); path != "" {
		if err := followInProcess(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if path := os.Getenv(bareVariable); path != "" {
		if err := readBare(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// agent is the real server of the API on pipes, with no agent behind it. Because of the pipes it runs in bubbles of
// virtual time. It can be replaced, frozen and cut off.
type agent struct {
	t      testing.TB
	status func() *fencingv1.Status

	mu     sync.Mutex
	hub    *publish.Hub
	server *publish.Server
	served chan error
	pipes  *boottimetest.Pipes
	open   []net.Conn
	gate   chan struct{} // closed while the agent is not frozen
}

func newAgent(t testing.TB) *agent {
	a := &agent{t: t, gate: make(chan struct{})}
	close(a.gate)
	t.Cleanup(a.stop)
	return a
}

// start replaces the agent by one that knows nothing, and returns the new hub.
func (a *agent) start() *publish.Hub {
	a.stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hub = publish.NewHub(publish.HubConfig{Source: "n1"})
	var err error
	if a.server, err = publish.New(publish.Config{Hub: a.hub, Status: a.status}); err != nil {
		a.t.Fatal(err)
	}
	a.pipes = boottimetest.NewPipes(&net.UnixAddr{Name: "pipe", Net: "unix"})
	a.served = make(chan error, 1)
	go func(s *publish.Server, l net.Listener, served chan<- error) { served <- s.Serve(l) }(a.server, a.pipes, a.served)
	return a.hub
}

// stop ends the agent as a crash does: queued messages are lost.
func (a *agent) stop() {
	a.mu.Lock()
	server, served := a.server, a.served
	a.server, a.pipes = nil, nil
	a.mu.Unlock()
	if server == nil {
		return
	}
	a.thaw()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = server.Stop(over)
	if err := <-served; err != nil {
		a.t.Errorf("Serve: %v", err)
	}
}

// cut breaks every connection; the agent keeps running.
func (a *agent) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.open {
		c.Close()
	}
	a.open = nil
}

// freeze acts like SIGSTOP: connections stay, and the kernel accepts new ones.
func (a *agent) freeze() {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.gate:
		a.gate = make(chan struct{})
	default: // already frozen: a new gate would block for ever the callers that wait at the present one
	}
}

func (a *agent) thaw() {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.gate:
	default:
		close(a.gate)
	}
}

func (a *agent) pass() {
	a.mu.Lock()
	gate := a.gate
	a.mu.Unlock()
	<-gate
}

func (a *agent) dial(ctx context.Context) (net.Conn, error) {
	a.mu.Lock()
	pipes := a.pipes
	a.mu.Unlock()
	if pipes == nil {
		return nil, errors.New("connection refused")
	}
	here, far := net.Pipe()
	switch err := pipes.Hand(ctx, gated{far, a}); {
	case err == nil:
		a.mu.Lock()
		a.open = append(a.open, far)
		a.mu.Unlock()
		return here, nil
	case errors.Is(err, net.ErrClosed):
		return nil, errors.New("connection refused")
	default:
		return nil, err
	}
}

// gated is the agent's end of a connection.
type gated struct {
	net.Conn
	agent *agent
}

func (g gated) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	g.agent.pass()
	return n, err
}

func (g gated) Write(p []byte) (int, error) {
	g.agent.pass()
	return g.Conn.Write(p)
}

// told is an update in the form that tests compare; the maps of the real update change later.
type told struct {
	at                 time.Duration
	inForce, connected bool
	err                error
	available, left    string
	edges              string
	revision           uint64
}

// witness is a callback that records its updates.
type witness struct {
	began time.Time
	mu    sync.Mutex
	all   []told
	more  chan struct{}
	busy  func() // nil, or called within each callback
}

func newWitness() *witness { return &witness{began: time.Now(), more: make(chan struct{}, 1)} }

func (w *witness) use(u Update) {
	n := told{
		at: time.Since(w.began), inForce: u.InForce, connected: u.Connected, err: u.Err, revision: u.Revision,
		available: describe(u.Available), left: strings.Join(slices.Sorted(maps.Keys(u.Left)), " "), edges: describeEdges(u.Edges),
	}
	w.mu.Lock()
	w.all = append(w.all, n)
	busy := w.busy
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
	if busy != nil {
		busy()
	}
}

func (w *witness) seen() []told {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

func (w *witness) last() told {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) == 0 {
		return told{}
	}
	return w.all[len(w.all)-1]
}

// follow runs Follow until the test ends, or end is called.
func follow(t testing.TB, a *agent, hold time.Duration, w *witness) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Follow(ctx, Config{Hold: hold, Dial: a.dial}, w.use) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Follow: %v", err)
		}
	})
	t.Cleanup(end)
	return end
}

// describe names nodes, with the address where it is not the usual one.
func describe(nodes map[string]*fencingv1.Node) string {
	names := slices.Sorted(maps.Keys(nodes))
	for i, name := range names {
		names[i] = name + address(nodes[name])
	}
	return strings.Join(names, " ")
}

func address(n *fencingv1.Node) string {
	if a := n.GetAddresses()["mgmt"]; a != "10.0.0."+n.GetName()[1:] {
		return "@" + a
	}
	return ""
}

func describeEdges(edges []Edge) string {
	var b []string
	for _, e := range edges {
		sign := "+"
		if e.Type == fencingv1.EventType_LEFT {
			sign = "-"
		}
		if e.Missed {
			sign += "?"
		}
		b = append(b, sign+e.Node.GetName())
		if e.Type == fencingv1.EventType_JOIN {
			b[len(b)-1] += address(e.Node)
		}
	}
	return strings.Join(b, " ")
}

func node(name string) publish.Node {
	return publish.Node{Name: name, Addresses: map[string]string{"mgmt": "10.0.0." + name[1:]}}
}

func nodes(names ...string) []publish.Node {
	out := make([]publish.Node, len(names))
	for i, n := range names {
		out[i] = node(n)
	}
	return out
}

func left(name string) publish.Edge {
	return publish.Edge{Type: fencingv1.EventType_LEFT, Node: publish.Node{Name: name}}
}

func join(name string) publish.Edge {
	return publish.Edge{Type: fencingv1.EventType_JOIN, Node: node(name)}
}

func want(t testing.TB, got told, state, available, left, edges string) {
	t.Helper()
	now := "silent"
	switch {
	case got.inForce && got.connected:
		now = "connected"
	case got.inForce:
		now = "held"
	}
	if have := fmt.Sprintf("%s [%s] left [%s] edges [%s]", now, got.available, got.left, got.edges); have !=
		fmt.Sprintf("%s [%s] left [%s] edges [%s]", state, available, left, edges) {
		t.Fatalf("the callback was told: %s (%v); want: %s [%s] left [%s] edges [%s]", have, got.err, state, available, left, edges)
	}
}
