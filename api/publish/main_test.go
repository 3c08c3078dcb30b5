package publish

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(callerEnv); path != "" {
		os.Exit(call(path))
	}
	goleak.VerifyTestMain(m)
}

// windowBytes is the number of bytes that a stream accepts for a reader that does not read.
const windowBytes = 64 << 10

// patience limits the wait for an event that must happen soon.
const patience = 30 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until ok returns true. It is for states that cause no event.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("gave up after %v: %s", patience, what)
		}
	}
}

// socketFolder returns a directory with a path that is short enough for a socket.
func socketFolder(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "api")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// fixture is a server on a real socket.
type fixture struct {
	hub    *Hub
	server *Server
	path   string
}

func serve(t testing.TB, hub HubConfig, cfg Config) *fixture {
	t.Helper()
	f := &fixture{hub: NewHub(hub), path: filepath.Join(socketFolder(t), "api.sock")}
	cfg.Hub = f.hub
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	var err error
	if f.server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(f.path, 0o600, "")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // this ends whatever a test has left open
		_ = f.server.Stop(ctx)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return f
}

// dial opens a separate connection, optionally through wrap.
func (f *fixture) dial(t testing.TB, wrap func(net.Conn) net.Conn) *grpc.ClientConn {
	t.Helper()
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// A window that grows with grpc's estimate of the connection could at times accept all that a test sends to a
		// reader that does not read.
		grpc.WithStaticStreamWindowSize(windowBytes),
	}
	if wrap != nil {
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, "unix", f.path)
			if err != nil {
				return nil, err
			}
			return wrap(c), nil
		}))
	}
	conn, err := grpc.NewClient("unix://"+f.path, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (f *fixture) client(t testing.TB) fencingv1.FencingClient {
	return fencingv1.NewFencingClient(f.dial(t, nil))
}

func (f *fixture) subscribers() int {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	return len(f.hub.subs)
}

func node(name string) Node {
	return Node{Name: name, Addresses: map[string]string{"mgmt": "10.0.0." + name[1:], "data": "10.1.0." + name[1:]}}
}

func nodes(names ...string) []Node {
	out := make([]Node, len(names))
	for i, n := range names {
		out[i] = node(n)
	}
	return out
}

func join(name string) Edge { return Edge{Type: fencingv1.EventType_JOIN, Node: node(name)} }

func left(name string) Edge { return Edge{Type: fencingv1.EventType_LEFT, Node: Node{Name: name}} }

func namesOf(all *fencingv1.AllNodes) []string {
	var out []string
	for _, n := range all.GetNodes() {
		out = append(out, n.GetName())
	}
	return out
}

func wantNames(t testing.TB, all *fencingv1.AllNodes, names ...string) {
	t.Helper()
	if got := namesOf(all); !slices.Equal(got, names) {
		t.Fatalf("available nodes are %v, want %v", got, names)
	}
}

// line returns an event in the form that tests compare.
func line(ev *fencingv1.Event) string {
	return fmt.Sprintf("%v %s", ev.GetType(), ev.GetNode().GetName())
}
