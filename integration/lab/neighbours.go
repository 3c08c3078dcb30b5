package lab

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// learnedNeighbours limits the hardware addresses that the nodes of a lab may learn. The kernel's table has room for
// 1024 addresses (net.ipv4.neigh.default.gc_thresh3) in all namespaces together. If it were full, more nodes would be
// cut off from each other at random.
const learnedNeighbours = 600

// introduceAll gives all nodes the permanent hardware addresses of all others: such entries do not count against the
// limit. A node of such a lab therefore asks for no address, and must keep its interfaces.
func (l *Lab) introduceAll() error {
	for i, network := range l.cfg.Networks {
		macs := make([]net.HardwareAddr, len(l.cfg.Nodes))
		index := make([]int, len(l.cfg.Nodes))
		for j, node := range l.cfg.Nodes {
			err := l.nodes[node].links(func(h *netlink.Handle) error {
				link, err := h.LinkByName(network)
				if err == nil {
					macs[j], index[j] = link.Attrs().HardwareAddr, link.Attrs().Index
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("node %s: find interface %s: %w", node, network, err)
			}
		}
		for j, node := range l.cfg.Nodes {
			err := l.nodes[node].links(func(h *netlink.Handle) error { return l.introduce(h, i, j, index[j], macs) })
			if err != nil {
				return fmt.Errorf("node %s: neighbours on network %s: %w", node, network, err)
			}
		}
	}
	return nil
}

func (l *Lab) introduce(h *netlink.Handle, i, j, link int, macs []net.HardwareAddr) error {
	for k, peer := range l.cfg.Nodes {
		if k == j {
			continue
		}
		err := h.NeighSet(&netlink.Neigh{
			LinkIndex: link, State: netlink.NUD_PERMANENT,
			IP: l.Address(peer, l.cfg.Networks[i]).AsSlice(), HardwareAddr: macs[k],
		})
		if err != nil {
			return err
		}
	}
	return nil
}
