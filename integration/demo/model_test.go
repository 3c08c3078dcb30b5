package demo

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/lab"
)

// model is a Cluster of ideal agents that know the truth at once: they show what the
// demo expects of real ones, and, with a fault, what it must not let pass.
type model struct {
	dir   string
	nodes []string
	fault string

	mu        sync.Mutex // guards all below
	alive     map[string]*modelAgent
	part      map[string]map[string]int
	grant     []string // holders of the lease
	instance  uint64
	counter   map[string]uint32
	available map[string][]string // by each agent's account
	exited    map[string]error
	dropped   uint64
	changed   chan struct{}
}

type modelAgent struct {
	fencingv1.UnimplementedFencingServer
	fencingv1.UnimplementedFencingStatusServer
	m      *model
	node   string
	server *grpc.Server
	done   chan struct{}
	status *fencingv1.Status
	events []*fencingv1.Event
}

// modelDMax is how long the demo watches that nothing happens, 5/4 of it.
const modelDMax = 100 * time.Millisecond

// patience is for how long the demo waits for what must come. Ideal agents are never late, but
// the machine may be; of what never comes because of a fault the whole of it is waited out.
func (m *model) patience() time.Duration {
	if m.fault == "" {
		return time.Minute
	}
	return 6 * time.Second
}

func newModel(t *testing.T, nodes []string, fault string) *model {
	t.Helper()
	dir, err := os.MkdirTemp("", "fd")
	if err != nil {
		t.Fatal(err)
	}
	m := &model{
		dir: dir, nodes: nodes, fault: fault, alive: map[string]*modelAgent{}, part: map[string]map[string]int{},
		counter: map[string]uint32{}, available: map[string][]string{}, exited: map[string]error{}, changed: make(chan struct{}),
	}
	t.Cleanup(func() {
		m.Close()
		os.RemoveAll(dir)
	})
	return m
}

func (m *model) Nodes() []string    { return slices.Clone(m.nodes) }
func (m *model) Networks() []string { return slices.Clone(networks) }
func (m *model) Describe() string   { return "a model" }

func (m *model) Start(node string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault == "agent ends" && node == "n2" {
		m.exited[node] = errors.New("agent on node n2 ended: exit status 1")
		return nil
	}
	os.Remove(m.SocketPath(node))
	l, err := net.Listen("unix", m.SocketPath(node))
	if err != nil {
		return err
	}
	a := &modelAgent{m: m, node: node, server: grpc.NewServer(), done: make(chan struct{})}
	fencingv1.RegisterFencingServer(a.server, a)
	fencingv1.RegisterFencingStatusServer(a.server, a)
	m.alive[node] = a
	m.counter[node]++
	m.decide()
	go func() {
		defer close(a.done)
		_ = a.server.Serve(l)
	}()
	return nil
}

func (m *model) Kill(node string) error {
	m.mu.Lock()
	a := m.alive[node]
	delete(m.alive, node)
	delete(m.available, node)
	m.decide()
	m.mu.Unlock()
	if a != nil {
		a.server.Stop()
		<-a.done
	}
	return nil
}

func (m *model) Exited(node string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.exited[node]
}

func (m *model) CutNetworks(networks []string, groups ...[]string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, network := range networks {
		m.part[network] = map[string]int{}
		for i, g := range groups {
			for _, node := range g {
				m.part[network][node] = i
			}
		}
	}
	if m.fault != "cut does nothing" {
		m.dropped += 10
	}
	m.decide()
	return nil
}

func (m *model) Heal() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault == "no heal" && len(m.grant) > 0 {
		return nil
	}
	clear(m.part)
	m.decide()
	return nil
}

func (m *model) Dropped() (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dropped, nil
}

func (m *model) Status(node string) (*grpc.ClientConn, error) {
	return lab.DialSocket(m.SocketPath(node))
}
func (m *model) SocketPath(node string) string { return filepath.Join(m.dir, node+".sock") }
func (m *model) Hints(string) []string         { return []string{"a hint"} }

func (m *model) Close() error {
	for _, node := range m.nodes {
		_ = m.Kill(node)
	}
	return nil
}

// reaches is the truth of one network.
func (m *model) reaches(network, a, b string) bool {
	return m.alive[a] != nil && m.alive[b] != nil && m.part[network][a] == m.part[network][b]
}

func (m *model) view(node string) (out []string) {
	for _, peer := range m.nodes {
		for _, network := range networks {
			if m.reaches(network, node, peer) && !slices.Contains(out, peer) {
				out = append(out, peer)
			}
		}
	}
	return out
}

// decide gives every agent its status and events again. The lock is held.
func (m *model) decide() {
	for _, node := range m.nodes {
		if view := m.view(node); len(view)*2 == len(m.nodes) && m.grant == nil && m.fault != "none lives" {
			m.grant, m.instance = view, m.instance+1
		} else if len(view)*2 > len(m.nodes) && slices.Contains(m.grant, node) && m.fault != "grant is kept" {
			for _, holder := range m.grant {
				m.counter[holder]++
			}
			m.grant = nil
		}
	}
	for _, node := range m.nodes {
		if m.alive[node] != nil {
			m.tell(m.alive[node])
		}
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *model) tell(a *modelAgent) {
	view := m.view(a.node)
	held := slices.Contains(m.grant, a.node)
	v := &fencingv1.Verdict{Permission: fencingv1.Permission_PERMISSION_STARVE, Reason: fencingv1.Reason_REASON_QUORUM_LOST}
	switch {
	case len(view)*2 > len(m.nodes):
		v.Permission, v.Reason = fencingv1.Permission_PERMISSION_FEED, fencingv1.Reason_REASON_NETWORK_QUORUM
	case len(view)*2 == len(m.nodes) && (held || m.fault == "both live"):
		v.Permission, v.Reason = fencingv1.Permission_PERMISSION_FEED, fencingv1.Reason_REASON_SPLIT_WON
	case len(view)*2 == len(m.nodes):
		v.Reason = fencingv1.Reason_REASON_SPLIT_LOST
	}
	if m.fault == "loser goes on" && v.Reason == fencingv1.Reason_REASON_SPLIT_LOST {
		v.Permission = fencingv1.Permission_PERMISSION_HOLD
	}
	slot := uint32(1)
	a.status = &fencingv1.Status{
		Self: &fencingv1.NodeIdentity{Name: a.node}, Verdict: v,
		Luns:     []*fencingv1.LunStatus{{Healthy: m.fault != "sick LUN", Slot: &slot}},
		LunLease: &fencingv1.LunLease{Held: held, Holders: m.grant, Instance: m.instance},
		TimeBudget: &fencingv1.TimeBudget{
			DMax: durationpb.New(modelDMax), WatchdogTimeout: durationpb.New(modelDMax),
			HorizonMajority: durationpb.New(m.patience()), HorizonTie: durationpb.New(m.patience()),
		},
	}
	m.describePeers(a, view)
	m.publish(a, view)
}

func (m *model) describePeers(a *modelAgent, view []string) {
	for _, network := range networks {
		n := &fencingv1.NetworkStatus{Name: network}
		for _, peer := range m.nodes {
			if peer != a.node {
				n.Members = append(n.Members, &fencingv1.NetworkMember{Name: peer, Reachable: m.reaches(network, a.node, peer)})
			}
		}
		a.status.Networks = append(a.status.Networks, n)
	}
	for _, peer := range m.nodes {
		n := &fencingv1.NodeStatus{
			Name: peer, Counted: slices.Contains(view, peer), State: fencingv1.NodeState_NODE_STATE_REACHABLE,
			Token: &fencingv1.Token{BootNonce: "0", Counter: m.counter[peer]},
		}
		if !n.Counted {
			n.State = fencingv1.NodeState_NODE_STATE_UNREACHABLE
			if m.fault == "fenced too early" {
				n.State = fencingv1.NodeState_NODE_STATE_FENCED
			}
		}
		a.status.Nodes = append(a.status.Nodes, n)
	}
}

// publish sends the difference between the view and what was available before.
func (m *model) publish(a *modelAgent, view []string) {
	if m.fault == "LEFT for one network" && len(m.part) == 1 {
		view = []string{a.node}
	}
	before, known := m.available[a.node]
	m.available[a.node] = view
	for _, peer := range m.nodes {
		was, is := slices.Contains(before, peer), slices.Contains(view, peer)
		switch {
		case !known || was == is:
		case m.fault == "no events" && a.node == "n1":
		case is:
			a.events = append(a.events, &fencingv1.Event{Node: m.node(peer), Type: fencingv1.EventType_JOIN})
		default:
			a.events = append(a.events, &fencingv1.Event{Node: m.node(peer), Type: fencingv1.EventType_LEFT})
		}
	}
}

func (m *model) node(name string) *fencingv1.Node {
	addresses := map[string]string{}
	for _, network := range networks {
		addresses[network] = "192.0.2.1"
	}
	if m.fault == "address missing" {
		delete(addresses, networks[1])
	}
	return &fencingv1.Node{Name: name, Addresses: addresses}
}

func (a *modelAgent) GetAll(context.Context, *emptypb.Empty) (*fencingv1.AllNodes, error) {
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	all := &fencingv1.AllNodes{}
	for _, name := range a.m.available[a.node] {
		all.Nodes = append(all.Nodes, a.m.node(name))
	}
	return all, nil
}

func (a *modelAgent) StreamEvents(_ *emptypb.Empty, stream grpc.ServerStreamingServer[fencingv1.Event]) error {
	a.m.mu.Lock()
	sent := len(a.events)
	a.m.mu.Unlock()
	if err := stream.SendHeader(metadata.Pairs(fencingv1.RevisionHeader, strconv.Itoa(sent))); err != nil {
		return err
	}
	return a.follow(stream.Context(), func() error {
		for ; sent < len(a.events); sent++ {
			if err := stream.Send(a.events[sent]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *modelAgent) WatchStatus(_ *emptypb.Empty, stream grpc.ServerStreamingServer[fencingv1.Status]) error {
	return a.follow(stream.Context(), func() error { return stream.Send(a.status) })
}

// follow calls f under the model's lock, at once and after every change.
func (a *modelAgent) follow(ctx context.Context, f func() error) error {
	for {
		a.m.mu.Lock()
		err := f()
		changed := a.m.changed
		a.m.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-time.After(time.Minute):
			return status.Error(codes.Aborted, "test hangs")
		}
	}
}
