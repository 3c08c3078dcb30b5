package subscriber

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/api/client"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// TestStuckCellDelaysNobody: somebody in cilium-agent holds the load balancer's tables, so
// that the cell hangs in its update. The agent goes on, and so does another subscriber, for
// more changes than fit into the agent's queue; the cell still takes them from its stream,
// and in the end it applies the state of that moment, not each change that it missed.
func TestStuckCellDelaysNobody(t *testing.T) {
	const nodes, edges = 10, 5000
	lb := newBalancer(t, map[string]string{"lb-test-fault-probability": "0", "fencing-agent-hold": "1m"})
	names := []string{ownNode}
	for i := range nodes {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	if err := lb.agent.start(names...); err != nil {
		t.Fatal(err)
	}
	if err := lb.hive.Start(lb.log, t.Context()); err != nil {
		t.Fatal(err)
	}
	lb.addService(t, 0, nodes, false)
	lb.agent.publish(fencingv1.EventType_LEFT, "n0")
	lb.until(t, perService-1)
	lb.agent.publish(fencingv1.EventType_JOIN, "n0")
	lb.until(t, perService) // so it follows the agent

	seen := followOther(t, lb.agent.path)
	before := lb.metrics.Refreshed.Get()
	txn := lb.writer.WriteTxn()
	release := sync.OnceFunc(txn.Abort) // else the load balancer cannot stop
	defer release()
	for n := range edges {
		kind := fencingv1.EventType_LEFT
		if n%2 == 1 {
			kind = fencingv1.EventType_JOIN
		}
		lb.agent.publish(kind, "n1")
		select {
		case got := <-seen:
			if got != kind {
				t.Fatalf("edge %d came as %v, want %v", n, got, kind)
			}
		case <-time.After(time.Minute):
			t.Fatalf("edge %d did not come to the other subscriber", n)
		}
	}
	lb.agent.publish(fencingv1.EventType_LEFT, "n2", "n3")
	lb.until(t, perService) // nothing was done: the cell hangs, in the update about n1
	release()
	lb.until(t, perService-2)
	if n := lb.agent.dropped(); n > 0 {
		t.Errorf("the agent ended %v streams that were not read", n)
	}
	for fe := range lb.writer.Frontends().All(lb.writer.ReadTxn()) {
		for be := range fe.Backends {
			if be.NodeName == "n2" || be.NodeName == "n3" {
				t.Errorf("the backend on %s is not out", be.NodeName)
			}
		}
	}
	// Services are selected again once in the update that hung, once for all changes that came meanwhile, and for the
	// last events if these were still under way.
	if got := lb.metrics.Refreshed.Get() - before; got > edges/100 {
		t.Errorf("services were selected again %v times for %d edges", got, edges)
	}
}

// followOther is another subscriber of the agent. It returns the edges about n1.
func followOther(t *testing.T, socket string) <-chan fencingv1.EventType {
	t.Helper()
	seen, ready := make(chan fencingv1.EventType), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		following.Wait()
	})
	first := true
	following.Go(func() {
		err := client.Follow(ctx, client.Config{Socket: socket}, func(u client.Update) {
			if first && u.State.InForce {
				first = false
				close(ready)
				return
			}
			for _, e := range u.Edges {
				if e.Node.GetName() != "n1" {
					continue
				}
				select {
				case seen <- e.Type:
				case <-ctx.Done():
				}
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("the other subscriber has no answer")
	}
	return seen
}
