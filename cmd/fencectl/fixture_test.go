package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// patience is how long a test waits for an event that must happen soon.
const patience = 30 * time.Second

// noon is the time of the statuses made here.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// testAgent serves the real API on a real socket, with the status that it is given.
type testAgent struct {
	hub      *publish.Hub
	server   *publish.Server
	path     string
	status   atomic.Pointer[fencingv1.Status]
	tell     atomic.Pointer[publish.Tell]
	order    atomic.Pointer[publish.Order]
	maintain atomic.Pointer[publish.Maintain]
	live     atomic.Bool           // each answer carries the present time, as if the loop ran
	stop     func(context.Context) // ends the server, only once
}

// socketFolder returns a directory with a path that is short enough for a socket.
func socketFolder(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "ctl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

func startAgent(t testing.TB, hub publish.HubConfig) *testAgent {
	t.Helper()
	return startAgentAt(t, filepath.Join(socketFolder(t), "agent.sock"), hub)
}

func startAgentAt(t testing.TB, path string, hub publish.HubConfig) *testAgent {
	t.Helper()
	a := &testAgent{hub: publish.NewHub(hub), path: path}
	var err error
	a.server, err = publish.New(publish.Config{
		Hub: a.hub, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		MayTell: func(context.Context) error { return nil }, // every caller may, not only root
		Tell: func(ctx context.Context, d publish.ToldDeath) (*fencingv1.Death, error) {
			return (*a.tell.Load())(ctx, d)
		},
		Maintain: func(ctx context.Context, m publish.Maintenance) (time.Time, error) {
			return (*a.maintain.Load())(ctx, m)
		},
		Order: func(ctx context.Context, o publish.FenceOrder) error { return (*a.order.Load())(ctx, o) },
		Status: func() *fencingv1.Status {
			st := proto.CloneOf(a.status.Load())
			if st != nil && a.live.Load() {
				st.Time = timestamppb.Now()
			}
			return st
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := publish.Listen(path, 0o600, "")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- a.server.Serve(listener) }()
	var once sync.Once
	a.stop = func(ctx context.Context) {
		once.Do(func() {
			_ = a.server.Stop(ctx)
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // this ends what a test has left open
		a.stop(ctx)
	})
	return a
}

// set makes st the current status.
func (a *testAgent) set(st *fencingv1.Status) {
	a.status.Store(st)
	a.server.StatusChanged()
}

// output is a stream that tests read while it is written.
type output struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	changed chan struct{}
}

func newOutput() *output { return &output{changed: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// until waits until the text meets the condition.
func (o *output) until(t testing.TB, what string, ok func(text string) bool) {
	t.Helper()
	deadline := time.After(patience)
	for !ok(o.String()) {
		select {
		case <-o.changed:
		case <-deadline:
			t.Fatalf("gave up waiting for %s; so far:\n%s", what, o.String())
		}
	}
}

func secs(s float64) *durationpb.Duration {
	return durationpb.New(time.Duration(s * float64(time.Second)))
}

func nodeOf(st *fencingv1.Status, name string) *fencingv1.NodeStatus {
	return st.Nodes[slices.IndexFunc(st.Nodes, func(n *fencingv1.NodeStatus) bool { return n.Name == name })]
}
