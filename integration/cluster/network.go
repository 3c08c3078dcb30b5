package cluster

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/vishvananda/netlink"

	"github.com/fencing-agent/fencing-agent/integration/cluster/machine"
	"github.com/fencing-agent/fencing-agent/integration/cluster/room"
)

// network contains a bridge for each network, and one port of each bridge for every node.
type network struct {
	listeners []net.Listener

	mu sync.Mutex
	at map[[2]int]place // by network and node; guarded by mu
}

// place is where a port is connected.
type place int

const (
	together place = iota
	apart          // on a second bridge, with the other nodes of its part
	nowhere
)

// bridge returns the name of a network's bridge for a place.
func bridge(network int, p place) string {
	if p == apart {
		return Networks[network] + "-apart"
	}
	return Networks[network]
}

// newNetwork creates the bridges, and relays connections to the Service kubernetes and to the front on to the API
// server.
func newNetwork(front net.Listener) (*network, error) {
	n := &network{at: map[[2]int]place{}}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return nil, err
	}
	if err := addAddress(lo, service+"/32"); err != nil && !errors.Is(err, errExists) {
		return nil, err
	}
	for i := range Networks {
		for _, p := range []place{together, apart} {
			// Otherwise a bridge would use the hardware address of one of its ports, and another one when that node
			// loses its power. The other nodes would then have to find the API server again.
			address := net.HardwareAddr{2, 0, 0, 1, byte(i), byte(p)}
			link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge(i, p), HardwareAddr: address}}
			if err := netlink.LinkAdd(link); err != nil {
				return nil, fmt.Errorf("network %s: %w", link.Name, err)
			}
			if i == 0 && p == together {
				if err := addAddress(link, harness+"/24"); err != nil {
					return nil, err
				}
			}
			if err := netlink.LinkSetUp(link); err != nil {
				return nil, fmt.Errorf("network %s: %w", link.Name, err)
			}
		}
	}
	l, err := listen(service + ":443")
	if err != nil {
		return nil, err
	}
	n.listeners = append(n.listeners, l)
	go room.Relay(l, fmt.Sprintf("%s:%d", harness, apiPort))
	relayFront.Do(func() { go room.Relay(front, fmt.Sprintf("127.0.0.1:%d", apiPort)) })
	return n, nil
}

// relayFront is done only once: the front outlives a cluster, and leads to the current one.
var relayFront sync.Once

var errExists = errors.New("it exists already")

func addAddress(link netlink.Link, address string) error {
	a, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	have, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return err
	}
	for _, h := range have {
		if h.Equal(*a) {
			return errExists
		}
	}
	return netlink.AddrAdd(link, a)
}

func port(network, node int) string { return fmt.Sprintf("%s-%d", Networks[network], node+1) }

// ports contains the ports of one node that boots.
type ports struct {
	network *network
	node    int
}

var _ machine.Ports = ports{}

// Enter creates the node's interfaces in the network namespace of the process.
func (p ports) Enter(pid int) error {
	return p.network.attach(p.node, func(i int, attrs netlink.LinkAttrs) netlink.Link {
		// The machine keeps its hardware address, so that the others need not ask for it again after a boot.
		return &netlink.Veth{LinkAttrs: attrs, PeerName: Networks[i], PeerNamespace: netlink.NsPid(pid), PeerHardwareAddr: hardware(i, p.node)}
	})
}

// Taps creates taps for a node that has its own kernel.
func (p ports) Taps() ([]string, error) {
	var names []string
	for i := range Networks {
		names = append(names, port(i, p.node))
	}
	return names, p.network.attach(p.node, func(_ int, attrs netlink.LinkAttrs) netlink.Link {
		return &netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR}
	})
}

func hardware(network, node int) net.HardwareAddr {
	return net.HardwareAddr{2, 0, 0, 0, byte(network), byte(node + 1)}
}

// attach gives a node that boots its ports, which link creates. A port that was cut stays cut.
func (n *network) attach(node int, link func(network int, attrs netlink.LinkAttrs) netlink.Link) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range Networks {
		if old, err := netlink.LinkByName(port(i, node)); err == nil {
			// It is a port of the last boot: the kernel removes it late.
			if err := netlink.LinkDel(old); err != nil {
				return fmt.Errorf("port %s: %w", port(i, node), err)
			}
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name = port(i, node)
		made := link(i, attrs)
		if err := netlink.LinkAdd(made); err != nil {
			return fmt.Errorf("port %s: %w", attrs.Name, err)
		}
		if err := netlink.LinkSetUp(made); err != nil {
			return fmt.Errorf("port %s: %w", attrs.Name, err)
		}
		if err := n.plug(i, node); err != nil {
			return err
		}
	}
	_, pods, err := net.ParseCIDR(podNetwork(node))
	if err != nil {
		return err
	}
	return netlink.RouteReplace(&netlink.Route{Dst: pods, Gw: net.ParseIP(nodeAddress(0, node))})
}

// plug connects the port to the bridge of its place, or disconnects it. The node keeps its carrier, so it does not
// notice. The caller holds mu.
func (n *network) plug(network, node int) error {
	link, err := netlink.LinkByName(port(network, node))
	if err != nil {
		return nil // the node has no power
	}
	if p := n.at[[2]int{network, node}]; p == nowhere {
		err = netlink.LinkSetNoMaster(link)
	} else {
		var to netlink.Link
		if to, err = netlink.LinkByName(bridge(network, p)); err == nil {
			err = netlink.LinkSetMaster(link, to)
		}
	}
	if err != nil {
		return fmt.Errorf("port %s: %w", port(network, node), err)
	}
	return nil
}

// set moves a port.
func (n *network) set(network, node int, to place) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at[[2]int{network, node}] = to
	return n.plug(network, node)
}

func (n *network) close() error {
	var errs []error
	for _, l := range n.listeners {
		errs = append(errs, l.Close())
	}
	for i := range Networks {
		for _, p := range []place{together, apart} {
			if link, err := netlink.LinkByName(bridge(i, p)); err == nil {
				errs = append(errs, netlink.LinkDel(link))
			}
		}
	}
	return errors.Join(errs...)
}
