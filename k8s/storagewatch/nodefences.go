package storagewatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/fencing"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/storagefence"
)

// nodeTimeout limits the reads about one node, so that a read that hangs leaves time for the others.
const nodeTimeout = time.Second

// NodeFences is a storage that does not know itself which nodes it refuses. Instead, NodeFences show which nodes were
// cut off from it, with a barrier, or with a time for which an operator vouches. Its volumes are not on nodes, so all
// of them are healthy.
type NodeFences struct {
	reader client.Reader
	driver string
	now    func() time.Time

	turn chan struct{} // capacity 1; a caller holds it while it reads, and waits for it no longer than its context allows
	// nodes lists those that have had a NodeFence, or the taint of this program. Guarded by turn.
	nodes map[string]bool

	mu sync.Mutex
	// heard holds when this process last saw each node's Lease renewed. Guarded by mu.
	heard fencing.Held
	// cut holds the time from which this process has known that each node is being cut off. Guarded by mu.
	cut fencing.Held
}

// NewNodeFences creates the storage of one CSI driver. Its reader must not be a cache.
func NewNodeFences(reader client.Reader, driver string, now func() time.Time) *NodeFences {
	return &NodeFences{reader: reader, driver: driver, now: now, turn: make(chan struct{}, 1)}
}

func (p *NodeFences) Volume(context.Context, string) (storagefence.Health, string, error) {
	return storagefence.Healthy, "", nil
}

// Nodes implements [Provider]. A node is unhealthy while no write of the boot that its Node shows lands on the storage.
// It is healthy again when it is Ready and its NodeFence is gone.
//
// Invariant: if one node cannot be read, only the health of that node is unknown. The others are handled.
func (p *NodeFences) Nodes(ctx context.Context) ([]storagefence.Node, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.nodes == nil {
		if err := p.first(ctx); err != nil {
			return nil, err
		}
	}
	// NodeFences are read first: a boot that begins after that then shows in the Node.
	fences, err := p.fences(ctx)
	if err != nil {
		return nil, err
	}
	for name := range fences {
		p.nodes[name] = true
	}
	var out []storagefence.Node
	for name := range p.nodes {
		health, over, err := p.health(ctx, name, fences[name])
		if err != nil {
			out = append(out, storagefence.Node{Name: name, Health: storagefence.Unknown, Unread: err.Error()})
			continue
		}
		out = append(out, storagefence.Node{Name: name, Health: health})
		if over {
			delete(p.nodes, name)
			p.forget(name)
		}
	}
	return out, nil
}

// Node implements [OneNode]. It does not wait for reads about other nodes.
func (p *NodeFences) Node(ctx context.Context, name string) (storagefence.Node, error) {
	fences, err := p.fences(ctx)
	if err != nil {
		return storagefence.Node{}, err
	}
	health, _, err := p.health(ctx, name, fences[name])
	if err != nil {
		return storagefence.Node{Name: name, Health: storagefence.Unknown, Unread: err.Error()}, nil
	}
	return storagefence.Node{Name: name, Health: health}, nil
}

// fences returns all NodeFences, by node.
func (p *NodeFences) fences(ctx context.Context) (map[string]*fencing.NodeFence, error) {
	var list fencing.NodeFenceList
	if err := p.reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list NodeFences: %w", err)
	}
	fences := map[string]*fencing.NodeFence{}
	for i := range list.Items {
		if name := list.Items[i].Spec.NodeName; list.Items[i].Name == fencing.NameOf(name) { // the controller ignores all others
			fences[name] = &list.Items[i]
		}
	}
	return fences, nil
}

func (p *NodeFences) forget(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.heard, node)
	delete(p.cut, node)
}

// first finds taints that an earlier process has left on Nodes.
func (p *NodeFences) first(ctx context.Context) error {
	var list corev1.NodeList
	if err := p.reader.List(ctx, &list); err != nil {
		return fmt.Errorf("list Nodes: %w", err)
	}
	p.nodes = map[string]bool{}
	for i := range list.Items {
		if tainted(&list.Items[i]) {
			p.nodes[list.Items[i].Name] = true
		}
	}
	return nil
}

// health returns the health of one node, and whether it no longer has to be looked at.
func (p *NodeFences) health(ctx context.Context, name string, fence *fencing.NodeFence) (h storagefence.Health, over bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	var node corev1.Node
	err = p.reader.Get(ctx, types.NamespacedName{Name: name}, &node)
	if client.IgnoreNotFound(err) != nil {
		return h, false, fmt.Errorf("read Node %s: %w", name, err)
	}
	if err != nil {
		return storagefence.Unknown, fence == nil, nil
	}
	isReady := ready(&node)
	switch {
	case fence == nil && isReady:
		return storagefence.Healthy, !tainted(&node), nil
	case fence == nil:
		return storagefence.Unknown, false, nil
	}
	silent, err := p.silent(ctx, name)
	if err != nil {
		return h, false, err
	}
	o := nodefence.Object{Deleting: fence.DeletionTimestamp != nil, Status: fence.Status}
	n := nodefence.Node{Exists: true, UID: string(node.UID), Boot: deaths.Boot(node.Status.NodeInfo.BootID), Ready: isReady, Silent: silent}
	if p.waited(name, string(fence.UID), &o) && o.Severed(n, p.driver, p.now()) {
		return storagefence.Unhealthy, false, nil
	}
	return storagefence.Unknown, false, nil
}

// waited reports whether the time for which an operator vouches has passed since this process has known of it. Its end
// in the NodeFence is by the clock of another replica: if that is ahead, the time would end too soon.
func (p *NodeFences) waited(node, uid string, o *nodefence.Object) bool {
	from, wait := o.Status.Vouched(p.driver)
	text := uid + from.UTC().Format(time.RFC3339Nano)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut.For(node, text, p.now()) >= wait
}

// silent reports whether the node's Lease was not renewed for its whole duration. It only uses this process's clock;
// the node's clock, which is in the Lease, may differ. A process that has just started waits for the whole duration. A
// kubelet that returns renews its Lease before it shows its boot.
func (p *NodeFences) silent(ctx context.Context, node string) (bool, error) {
	l, err := fencing.ReadLease(ctx, p.reader, node)
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard.Silent(node, l, p.now()), nil
}
