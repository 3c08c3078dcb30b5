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

// nodeTimeout bounds the reads about one node, so that one that hangs leaves time for the others.
const nodeTimeout = time.Second

// NodeFences is a storage that does not know itself which nodes it refuses: NodeFences say from which of them it was cut off,
// with a barrier, or a time that an operator vouches for. Its volumes are on no node, so that all are healthy.
type NodeFences struct {
	reader client.Reader
	driver string
	now    func() time.Time

	turn chan struct{} // capacity 1: who asks has put something in; nobody waits longer than its context for another's reads
	// nodes are those that have had a NodeFence, or the taint of this program. Guarded by turn.
	nodes map[string]bool

	mu sync.Mutex
	// heard has when this process saw the Lease of each of them renewed last. Guarded by mu.
	heard fencing.Held
	// cut is since when this process knows that they are being cut off. Guarded by mu.
	cut fencing.Held
}

// NewNodeFences asks by a reader that is no cache, for the storage of one CSI driver.
func NewNodeFences(reader client.Reader, driver string, now func() time.Time) *NodeFences {
	return &NodeFences{reader: reader, driver: driver, now: now, turn: make(chan struct{}, 1)}
}

// Volume implements [Provider].
func (p *NodeFences) Volume(context.Context, string) (storagefence.Health, string, error) {
	return storagefence.Healthy, "", nil
}

// Nodes implements [Provider]. A node is unhealthy while nothing of the boot that its Node shows lands on the storage, and
// healthy again when it is Ready and its NodeFence is gone.
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
	// NodeFences come first: a boot that begins after they were read shows in what is read of its Node.
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

// Node implements [OneNode]. It waits for nobody's reads about other nodes.
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

// fences are all NodeFences, by node.
func (p *NodeFences) fences(ctx context.Context) (map[string]*fencing.NodeFence, error) {
	var list fencing.NodeFenceList
	if err := p.reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list NodeFences: %w", err)
	}
	fences := map[string]*fencing.NodeFence{}
	for i := range list.Items {
		if name := list.Items[i].Spec.NodeName; list.Items[i].Name == fencing.NameOf(name) { // the controller carries out no other
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

// first finds what an earlier process has left on Nodes.
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

// health is that of one node, and whether nobody has to look at it any more.
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

// waited reports whether the time that an operator vouches for has passed since this process has seen that it runs. When it ends
// stands in the NodeFence by the clock of the replica that has written it: by one that is ahead it would have ended too soon.
func (p *NodeFences) waited(node, uid string, o *nodefence.Object) bool {
	from, wait := o.Status.Vouched(p.driver)
	text := uid + from.UTC().Format(time.RFC3339Nano)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut.For(node, text, p.now()) >= wait
}

// silent reports whether the node's Lease was not renewed for as long as it lasts, by the clock of this process alone: that of
// the node, which the Lease tells of, may be another. A process that has just started waits as long. A kubelet that comes back
// renews it before it shows its boot.
func (p *NodeFences) silent(ctx context.Context, node string) (bool, error) {
	l, err := fencing.ReadLease(ctx, p.reader, node)
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard.Silent(node, l, p.now()), nil
}
