package main

import (
	"bytes"
	"context"
	"fmt"
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

// patience is how long a test waits for what must happen soon.
const patience = 30 * time.Second

// noon is the time of the statuses made here.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// testAgent serves the real API on a real socket, with a status made by hand.
type testAgent struct {
	hub    *publish.Hub
	server *publish.Server
	path   string
	status atomic.Pointer[fencingv1.Status]
	stop   func(context.Context) // ends the server, only once
}

// socketFolder is a folder whose paths are short enough for a socket.
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
		Status: func() *fencingv1.Status {
			if st := a.status.Load(); st != nil {
				return proto.CloneOf(st)
			}
			return nil
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
		cancel() // what a test left open is cut off
		a.stop(ctx)
	})
	return a
}

// set makes st the present status.
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

// until waits until the text fulfills the condition.
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

// group is the status of n1 among so many nodes on mgmt and data, all in order.
func group(size int) *fencingv1.Status {
	st := &fencingv1.Status{
		Time: timestamppb.New(noon), Revision: uint64(size),
		Self: &fencingv1.NodeIdentity{
			Name: "n1", Group: "storage", Cluster: "prod", Version: "v0.1.0", BootNonce: "8c1f00a7d2e94b53", Uptime: secs(3*3600 + 720),
		},
		Verdict: &fencingv1.Verdict{
			Permission: fencingv1.Permission_PERMISSION_FEED, Reason: fencingv1.Reason_REASON_NETWORK_QUORUM,
			Text: "a majority is in contact", Since: timestamppb.New(noon.Add(-3 * time.Hour)), ValidFor: secs(3.21), Quorum: true,
			OnQuorumLoss: "fence",
			Tally:        &fencingv1.Tally{Reachable: uint32(size), Counted: uint32(size), Expected: uint32(size), Quorum: uint32(size/2 + 1)},
		},
		Networks: []*fencingv1.NetworkStatus{
			{Name: "mgmt", Address: "10.0.0.1", Interface: "eth0", Up: true},
			{Name: "data", Address: "10.1.0.1", Interface: "bond0", Up: true},
		},
		Luns: []*fencingv1.LunStatus{{
			Path: "/dev/mapper/fence", Device: "dm-3", Healthy: true, Slot: proto.Uint32(0), Claimed: true, Sequence: 10801,
			LastWriteAge: secs(0.42), LastReadAge: secs(0.81), WriteLatency: secs(0.0012), ReadLatency: secs(0.0008),
		}},
		LunLease: &fencingv1.LunLease{},
		Watchdog: &fencingv1.WatchdogStatus{
			Driver: "device", Device: "/dev/watchdog", Identity: "Software Watchdog", State: fencingv1.WatchdogState_WATCHDOG_STATE_ARMED,
			Armed: true, Timeout: secs(30), LastFeedAge: secs(2.13), Slack: secs(24.99), Feeds: 2160,
		},
		TimeBudget: &fencingv1.TimeBudget{
			DMax: secs(4), Arbitration: secs(10), Grant: secs(8), FeedInterval: secs(5), WatchdogTimeout: secs(30),
			Release: secs(30), Margin: secs(1), HorizonMajority: secs(70), HorizonTie: secs(80),
		},
		Roster: &fencingv1.RosterStatus{Digest: "51d0f6b2c3a49e87", Size: uint32(size), Quorum: uint32(size/2 + 1), Source: "static"},
		Api:    &fencingv1.ApiStatus{},
	}
	for i := 1; i <= size; i++ {
		addMember(st, i)
	}
	slices.SortFunc(st.Nodes, func(a, b *fencingv1.NodeStatus) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return st
}

func addMember(st *fencingv1.Status, i int) {
	n := &fencingv1.NodeStatus{
		Name: fmt.Sprintf("n%d", i), Addresses: map[string]string{"mgmt": fmt.Sprintf("10.0.0.%d", i), "data": fmt.Sprintf("10.1.0.%d", i)},
		State: fencingv1.NodeState_NODE_STATE_REACHABLE, Reachable: true, Counted: true, Available: true, EvidenceAge: secs(0.3),
		SeesThisNode: true, SameRoster: true, Token: &fencingv1.Token{BootNonce: fmt.Sprintf("%016x", i), Counter: 1},
		Feeding: true, WatchdogArmed: true, WatchdogTimeout: secs(30), LunHealthy: true, Version: "v0.1.0",
	}
	st.Nodes = append(st.Nodes, n)
	if n.Name == st.Self.Name {
		n.EvidenceAge = secs(0)
		return
	}
	n.HeardAge = secs(0.1)
	for k, network := range st.Networks {
		network.Members = append(network.Members, &fencingv1.NetworkMember{
			Name: n.Name, Address: n.Addresses[network.Name], Alive: true, Reachable: true, EvidenceAge: secs(0.3 + 0.2*float64(k)),
		})
	}
}

func nodeOf(st *fencingv1.Status, name string) *fencingv1.NodeStatus {
	return st.Nodes[slices.IndexFunc(st.Nodes, func(n *fencingv1.NodeStatus) bool { return n.Name == name })]
}

// lose takes a node off a network.
func lose(st *fencingv1.Status, network, name string, age float64) {
	for _, n := range st.Networks {
		for _, m := range n.Members {
			if n.Name == network && m.Name == name {
				m.Alive, m.Reachable, m.EvidenceAge = false, false, secs(age)
			}
		}
	}
}

// loseAll takes nodes off every network.
func loseAll(st *fencingv1.Status, age float64, names ...string) {
	for _, name := range names {
		for _, network := range st.Networks {
			lose(st, network.Name, name, age)
		}
		n := nodeOf(st, name)
		n.State, n.Reachable, n.Counted, n.Available = fencingv1.NodeState_NODE_STATE_UNREACHABLE, false, false, false
		n.EvidenceAge, n.HeardAge = secs(age), secs(age)
		st.Verdict.Tally.Reachable--
		st.Verdict.Tally.Counted--
	}
}

// decide gives the status another verdict, made so long ago.
func decide(st *fencingv1.Status, p fencingv1.Permission, r fencingv1.Reason, quorum bool, validFor, ago float64, text string) {
	v := st.Verdict
	v.Permission, v.Reason, v.Quorum, v.Text, v.ValidFor = p, r, quorum, text, nil
	if validFor > 0 {
		v.ValidFor = secs(validFor)
	}
	v.Since = timestamppb.New(noon.Add(-time.Duration(ago * float64(time.Second))))
	nodeOf(st, st.Self.Name).Feeding = validFor > 0
}
