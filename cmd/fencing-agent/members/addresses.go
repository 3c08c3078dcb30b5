package members

import (
	"net/netip"
	"sync"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/marks"
	"github.com/fencing-agent/fencing-agent/k8s/nodelist"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

// Addresses keeps the annotations right by which the others learn this node's addresses, where the list of
// members is made of Nodes. A nil *Addresses does nothing. Its methods may be called from any goroutine and do
// not block.
type Addresses struct {
	networks []nodelist.Network
	writer   *marks.Writer

	mu    sync.Mutex            // guards what follows
	found map[string]netip.Addr // by network
	node  ownnode.State
}

// Seen takes this node's Node.
func (n *Addresses) Seen(s ownnode.State) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.node = s
	n.correct()
}

// Moved takes a changed address of this node.
func (n *Addresses) Moved(network string, to netip.Addr) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.found != nil && n.found[network] != to {
		n.found[network] = to
		n.correct()
	}
}

// correct wishes for the annotations that the Node lacks.
func (n *Addresses) correct() {
	if !n.node.Exists {
		return
	}
	node := nodelist.Node{Name: "", Internal: n.node.Addresses, Annotations: n.node.Annotations}
	if write := nodelist.Missing(&node, n.networks, n.found); len(write) > 0 {
		n.writer.Want(nil, wishes(write))
	}
}

// NewAddresses begins with the addresses that were found on the networks of a configuration.
func NewAddresses(c *config.Config, found map[string]netip.Addr, w *marks.Writer) *Addresses {
	return &Addresses{networks: networksOf(c), writer: w, found: found}
}

// Addresses returns what keeps this node's addresses right, by the writer on its Node; nil where the list of
// members does not come from Nodes.
func (m *Members) Addresses(w *marks.Writer) (*Addresses, error) {
	if m.nodes == nil {
		return nil, nil
	}
	found, err := m.nodes.found()
	if err != nil {
		return nil, err
	}
	return NewAddresses(m.cfg.Config, found, w), nil
}

// addressesOf finds this node's address on each network.
func addressesOf(c *config.Config, local func(*config.SystemNetwork) (netip.Addr, error)) (map[string]netip.Addr, error) {
	out := map[string]netip.Addr{}
	for _, sn := range c.SystemNetworks {
		address, err := local(&sn)
		if err != nil {
			return nil, err
		}
		out[sn.Name] = address
	}
	return out, nil
}

func wishes(m map[string]string) marks.Wish {
	out := marks.Wish{}
	for k, v := range m {
		out[k] = &v
	}
	return out
}
