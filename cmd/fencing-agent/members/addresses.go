package members

import (
	"net/netip"
	"sync"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/marks"
	"github.com/fencing-agent/fencing-agent/k8s/nodelist"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Addresses corrects the annotations from which the other nodes learn this node's addresses, if the list of members is
// derived from Nodes. A nil *Addresses does nothing. Its methods may be called from any goroutine and do not block.
type Addresses struct {
	networks []nodelist.Network
	writer   *marks.Writer

	mu    sync.Mutex            // guards the fields below
	found map[string]netip.Addr // by network
	node  ownnode.State
}

// Seen handles this node's Node.
func (n *Addresses) Seen(s ownnode.State) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.node = s
	n.correct()
}

// Moved handles a changed address of this node.
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

// correct requests the annotations that the Node lacks.
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

// Addresses returns what keeps this node's addresses right, through the writer of its Node; nil if the list of members
// does not come from Nodes.
func (m *Members) Addresses(w *marks.Writer) *Addresses {
	if m.nodes == nil {
		return nil
	}
	found, _ := m.nodes.found() // a missing network is published when it appears
	return NewAddresses(m.cfg.Config, found, w)
}

// addressesOf finds this node's address on each network; if there are several, the listed one. The error says why the
// first missing network has no address; the other addresses are returned in any case.
func addressesOf(c *config.Config, local func(*config.SystemNetwork, netip.Addr) (netip.Addr, error), listed func(network string) netip.Addr) (out map[string]netip.Addr, err error) {
	out = map[string]netip.Addr{}
	for _, sn := range c.SystemNetworks {
		address, away := local(&sn, listed(sn.Name))
		switch {
		case away == nil:
			out[sn.Name] = address
		case err == nil:
			err = away
		}
	}
	return out, err
}

// addressesBy is like addressesOf, but a missing network keeps its listed address: a missing address has not changed.
func addressesBy(c *config.Config, local func(*config.SystemNetwork, netip.Addr) (netip.Addr, error), r *roster.Roster) (map[string]netip.Addr, error) {
	listed := listedIn(r)
	out, err := addressesOf(c, local, listed)
	for _, sn := range c.SystemNetworks {
		if a := listed(sn.Name); !out[sn.Name].IsValid() && a.IsValid() {
			out[sn.Name] = a
		}
	}
	if len(out) == len(c.SystemNetworks) {
		return out, nil
	}
	return out, err
}

// listedIn are this node's addresses by a list, nil if there is none yet.
func listedIn(r *roster.Roster) func(network string) netip.Addr {
	return func(network string) (a netip.Addr) {
		if r != nil && r.Self >= 0 {
			a, _ = netip.ParseAddr(r.Members[r.Self].Addresses[network]) // checked with the list
		}
		return a
	}
}

func wishes(m map[string]string) marks.Wish {
	out := marks.Wish{}
	for k, v := range m {
		out[k] = &v
	}
	return out
}
