package clienttest

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// Agent is an agent whose answers a test controls.
type Agent struct {
	Socket string // its path

	t    testing.TB
	self string

	mu      sync.Mutex // guards the fields below
	status  *fencingv1.Status
	boots   map[string]int
	stalled time.Time // when it stopped deciding; zero while it decides
	hub     *publish.Hub
	server  *publish.Server
	served  chan error // nil while the agent is stopped
}

// Start serves a group of these nodes. The first is the agent's own node. All nodes answer, and there is quorum.
func Start(t testing.TB, nodes ...string) *Agent {
	t.Helper()
	if len(nodes) == 0 {
		t.Fatal("clienttest: a group has at least one node")
	}
	folder, err := os.MkdirTemp("", "fa") // short enough for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) }) // it is no longer needed
	a := &Agent{Socket: filepath.Join(folder, "agent.sock"), t: t, self: nodes[0], boots: map[string]int{}}
	a.status = &fencingv1.Status{
		Self:    &fencingv1.NodeIdentity{Name: a.self},
		Verdict: &fencingv1.Verdict{Quorum: true, Permission: fencingv1.Permission_PERMISSION_FEED, Reason: fencingv1.Reason_REASON_NETWORK_QUORUM},
	}
	for _, name := range nodes {
		n := &fencingv1.NodeStatus{Name: name}
		answers(n, BootOf(name, 0))
		a.status.Nodes = append(a.status.Nodes, n)
	}
	a.Restart()
	t.Cleanup(a.Stop)
	return a
}

// BootOf is the nonce of a node's boot, as the agent reports it. The first boot is 0, and each [Agent.Join] after a
// death begins the next.
func BootOf(node string, n int) string {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", node, n) // never fails
	return fmt.Sprintf("%016x", h.Sum64()|1)
}

func answers(n *fencingv1.NodeStatus, boot string) {
	n.Reachable, n.State, n.Death = true, fencingv1.NodeState_NODE_STATE_REACHABLE, nil
	n.BootNonce, n.Token = boot, &fencingv1.Token{BootNonce: boot}
}

// change changes the status and sends it. The caller must not hold the mutex.
func (a *Agent) change(f func(*fencingv1.Status)) {
	a.mu.Lock()
	st := proto.CloneOf(a.status)
	f(st)
	a.status = st
	server, hub, nodes := a.server, a.hub, a.available()
	a.mu.Unlock()
	if server != nil {
		hub.Update(nodes, nil)
		server.StatusChanged()
	}
}

// available returns the nodes of Fencing.GetAll. The caller holds the mutex.
func (a *Agent) available() (out []publish.Node) {
	if !a.status.GetVerdict().GetQuorum() {
		return nil
	}
	for _, n := range a.status.GetNodes() {
		if n.GetReachable() {
			out = append(out, publish.Node{Name: n.GetName()})
		}
	}
	return out
}

func (a *Agent) node(name string, f func(*fencingv1.NodeStatus)) {
	a.t.Helper()
	if !slices.ContainsFunc(a.Status().GetNodes(), func(n *fencingv1.NodeStatus) bool { return n.GetName() == name }) {
		a.t.Errorf("clienttest: %s is not a node of the group", name)
		return
	}
	a.change(func(st *fencingv1.Status) {
		for _, n := range st.GetNodes() {
			if n.GetName() == name {
				f(n)
			}
		}
	})
}

// Leave makes a node stop answering. It may be running.
func (a *Agent) Leave(name string) {
	a.t.Helper()
	a.node(name, func(n *fencingv1.NodeStatus) {
		n.Reachable, n.State = false, fencingv1.NodeState_NODE_STATE_UNREACHABLE
	})
}

// Fence makes the present boot of a node proven dead.
func (a *Agent) Fence(name string, proof fencingv1.Proof) {
	a.t.Helper()
	a.node(name, func(n *fencingv1.NodeStatus) {
		n.Reachable, n.State = false, fencingv1.NodeState_NODE_STATE_FENCED
		n.Death = &fencingv1.Death{Proof: proof, BootNonce: n.GetBootNonce(), Time: timestamppb.Now()}
	})
}

// Join makes a node answer: with its next boot if the current one is dead, otherwise with the current one. The agent
// still reports the death of the earlier boot.
func (a *Agent) Join(name string) {
	a.t.Helper()
	a.node(name, func(n *fencingv1.NodeStatus) {
		death, boot := n.GetDeath(), n.GetBootNonce()
		if death.GetBootNonce() == boot {
			a.boots[name]++
			boot = BootOf(name, a.boots[name])
		}
		answers(n, boot)
		n.Death = death
	})
}

// Contradict makes a boot answer that was called dead: the death is withdrawn.
func (a *Agent) Contradict(name string) {
	a.t.Helper()
	a.node(name, func(n *fencingv1.NodeStatus) { answers(n, n.GetBootNonce()) })
}

// LoseQuorum makes the agent's own node the one that is about to be reset.
func (a *Agent) LoseQuorum() {
	a.change(func(st *fencingv1.Status) {
		st.Verdict = &fencingv1.Verdict{Permission: fencingv1.Permission_PERMISSION_STARVE, Reason: fencingv1.Reason_REASON_QUORUM_LOST}
	})
}

// RegainQuorum ends LoseQuorum.
func (a *Agent) RegainQuorum() {
	a.change(func(st *fencingv1.Status) {
		st.Verdict = &fencingv1.Verdict{Quorum: true, Permission: fencingv1.Permission_PERMISSION_FEED, Reason: fencingv1.Reason_REASON_NETWORK_QUORUM}
	})
}

// Stall freezes the agent: it keeps answering with one status that already has that age.
func (a *Agent) Stall(age time.Duration) {
	a.change(func(*fencingv1.Status) { a.stalled = time.Now().Add(-age) })
}

// Status is the agent's present status.
func (a *Agent) Status() *fencingv1.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	st := proto.CloneOf(a.status)
	if st.Time = timestamppb.Now(); !a.stalled.IsZero() {
		st.Time = timestamppb.New(a.stalled)
	}
	return st
}

// Stop ends the agent as a planned stop does: clients are notified, and the socket is removed. The group stays as it
// is.
func (a *Agent) Stop() {
	a.mu.Lock()
	server, served := a.server, a.served
	a.server, a.served = nil, nil
	a.mu.Unlock()
	if server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = server.Stop(ctx) // a client that does not end is disconnected
	if err := <-served; err != nil {
		a.t.Errorf("clienttest: %v", err)
	}
}

// Restart stops the agent, if it runs, and starts another one on the same socket.
func (a *Agent) Restart() {
	a.t.Helper()
	a.Stop()
	hub := publish.NewHub(publish.HubConfig{Source: a.self})
	server, err := publish.New(publish.Config{Hub: hub, Status: a.Status})
	if err != nil {
		a.t.Fatal(err)
	}
	listener, err := publish.Listen(a.Socket, 0o600, "")
	if err != nil {
		a.t.Fatal(err)
	}
	served := make(chan error, 1)
	a.mu.Lock()
	a.hub, a.server, a.served = hub, server, served
	nodes := a.available()
	a.mu.Unlock()
	hub.Update(nodes, nil)
	server.SetReady(true)
	go func() { served <- server.Serve(listener) }()
}
