package lab

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// RemoveInterface deletes the node's interface on the network, as the removal of a driver would. The address and the
// routes are deleted with it.
func (l *Lab) RemoveInterface(node, network string) error {
	return l.interfaceOf(node, network, func(i, j int) error {
		return l.hub.links(func(h *netlink.Handle) error {
			port, err := h.LinkByName(portName(i, j)) // the far end is deleted with the near one
			if err != nil {
				return err
			}
			return h.LinkDel(port)
		})
	})
}

// RestoreInterface creates a removed interface again, with the same name and address. The kernel gives it another
// index.
func (l *Lab) RestoreInterface(node, network string) error {
	return l.interfaceOf(node, network, func(i, j int) error {
		ns := l.nodes[node]
		if err := l.hub.links(func(h *netlink.Handle) error { return l.plug(h, ns, i, j) }); err != nil {
			return err
		}
		return ns.links(func(h *netlink.Handle) error { return l.address(h, network, i, j) })
	})
}

func (l *Lab) interfaceOf(node, network string, f func(i, j int) error) error {
	i, err := l.networkIndex(network)
	if err != nil {
		return err
	}
	j, err := l.nodeIndex(node)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	if err := f(i, j); err != nil {
		return fmt.Errorf("lab: interface of node %s on network %s: %w", node, network, err)
	}
	return nil
}

// Links runs f with a route-netlink handle of the node, for changes that have no method here.
func (l *Lab) Links(node string, f func(*netlink.Handle) error) error {
	ns, err := l.namespace(node)
	if err != nil {
		return err
	}
	if l.isClosed() {
		return errClosed
	}
	return ns.links(f)
}
