package lab

import (
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// These are names inside the hub. Ports are named by position, so that any names of nodes and networks fit into the 15
// characters of an interface name.
func bridgeName(network int) string     { return fmt.Sprintf("br%d", network+1) }
func portPrefix(network int) string     { return fmt.Sprintf("p%dn", network+1) }
func portName(network, node int) string { return fmt.Sprintf("%s%d", portPrefix(network), node+1) }

func (l *Lab) build() error {
	if err := l.addHub(); err != nil {
		return err
	}
	for j, node := range l.cfg.Nodes {
		if err := l.addNode(j); err != nil {
			return fmt.Errorf("node %s: %w", node, err)
		}
	}
	if n := len(l.cfg.Nodes); n*(n-1)*len(l.cfg.Networks) > learnedNeighbours {
		return l.introduceAll()
	}
	return nil
}

func (l *Lab) addNamespace() (*namespace, error) {
	ns, err := newNamespace()
	if err != nil {
		return nil, err
	}
	l.undo = append(l.undo, ns.close)
	return ns, ns.links(func(h *netlink.Handle) error { return setUp(h, "lo") })
}

func (l *Lab) addHub() (err error) {
	if l.hub, err = l.addNamespace(); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	err = l.hub.links(func(h *netlink.Handle) error {
		for i, network := range l.cfg.Networks {
			br := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
			br.Name = bridgeName(i)
			if err := h.LinkAdd(br); err != nil {
				return fmt.Errorf("add bridge for network %s: %w", network, err)
			}
			if err := h.LinkSetUp(br); err != nil {
				return fmt.Errorf("set bridge for network %s up: %w", network, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return l.installFirewall()
}

func (l *Lab) addNode(j int) error {
	ns, err := l.addNamespace()
	if err != nil {
		return err
	}
	l.nodes[l.cfg.Nodes[j]] = ns
	for i, network := range l.cfg.Networks {
		if err := l.hub.links(func(h *netlink.Handle) error { return l.plug(h, ns, i, j) }); err != nil {
			return fmt.Errorf("network %s: %w", network, err)
		}
		if err := ns.links(func(h *netlink.Handle) error { return l.address(h, network, i, j) }); err != nil {
			return fmt.Errorf("network %s: %w", network, err)
		}
	}
	return nil
}

// plug adds a veth pair. Its far end appears in the node under the network's name.
func (l *Lab) plug(h *netlink.Handle, ns *namespace, i, j int) error {
	port := netlink.NewVeth(netlink.NewLinkAttrs())
	port.Name = portName(i, j)
	port.PeerName = l.cfg.Networks[i]
	port.PeerNamespace = netlink.NsFd(int(ns.fd.Fd()))
	if err := h.LinkAdd(port); err != nil {
		return fmt.Errorf("add veth: %w", err)
	}
	br, err := h.LinkByName(bridgeName(i))
	if err != nil {
		return fmt.Errorf("find bridge: %w", err)
	}
	if err := h.LinkSetMaster(port, br); err != nil {
		return fmt.Errorf("plug veth into bridge: %w", err)
	}
	return setUp(h, port.Name)
}

func (l *Lab) address(h *netlink.Handle, network string, i, j int) error {
	link, err := h.LinkByName(network)
	if err != nil {
		return fmt.Errorf("find interface: %w", err)
	}
	ip := l.Address(l.cfg.Nodes[j], network).AsSlice()
	mask := net.CIDRMask(subnetBits, 32)
	if err := h.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: mask}}); err != nil {
		return fmt.Errorf("add address: %w", err)
	}
	return setUp(h, network)
}

func setUp(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("set interface %s up: %w", name, err)
	}
	return nil
}

// links runs f with a route-netlink handle whose socket belongs to the namespace.
func (ns *namespace) links(f func(*netlink.Handle) error) error {
	return ns.do(func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		defer h.Close()
		return f(h)
	})
}

// LinkDown takes the far end of the node's link down. The node loses its carrier, as if the cable were pulled.
func (l *Lab) LinkDown(node, network string) error { return l.setPort(node, network, false) }

// LinkUp plugs the cable in again.
func (l *Lab) LinkUp(node, network string) error { return l.setPort(node, network, true) }

func (l *Lab) setPort(node, network string, up bool) error {
	return l.interfaceOf(node, network, func(i, j int) error {
		return l.hub.links(func(h *netlink.Handle) error {
			link, err := h.LinkByName(portName(i, j))
			switch {
			case err != nil:
				return err
			case up:
				return h.LinkSetUp(link)
			default:
				return h.LinkSetDown(link)
			}
		})
	})
}

func (l *Lab) allPortsUp() error {
	return l.hub.links(func(h *netlink.Handle) error {
		for i := range l.cfg.Networks {
			for j := range l.cfg.Nodes {
				if err := setUp(h, portName(i, j)); err != nil {
					return fmt.Errorf("lab: %w", err)
				}
			}
		}
		return nil
	})
}

func (l *Lab) networkIndex(network string) (int, error) {
	if i := slices.Index(l.cfg.Networks, network); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("lab: there is no network %q: the networks are %v", network, l.cfg.Networks)
}

func (l *Lab) nodeIndex(node string) (int, error) {
	if j := slices.Index(l.cfg.Nodes, node); j >= 0 {
		return j, nil
	}
	return 0, fmt.Errorf("lab: there is no node %q: the nodes are %v", node, l.cfg.Nodes)
}
