package nodelist

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	// AddressAnnotation, followed by a network's name, is the annotation with a node's address on that network. It is
	// needed if its Node's internal address is another one.
	AddressAnnotation = "fencing-agent.io/address."
	// ConfirmAnnotation on any Node of the group confirms the list with the digest that is its value; see [Judge].
	ConfirmAnnotation = "fencing-agent.io/members-confirmed"
)

// Network is what is needed to find the nodes' addresses on a SystemNetwork. It is the same on all nodes of a group:
// otherwise they would derive different lists.
type Network struct {
	Name string
	CIDR netip.Prefix // an internal address outside of it belongs to another network; zero: any address may be used
	Port int
}

// Node is the part of a Node that is needed.
type Node struct {
	Name        string
	Internal    []netip.Addr      // in the order of the Node's status
	Annotations map[string]string // only those of this package
}

// Addresses finds a node's address on each network: the annotation, else the first internal address that the network's
// CIDR contains. An error names what is missing and what has to supply it.
func Addresses(n *Node, networks []Network) (map[string]string, error) {
	out := make(map[string]string, len(networks))
	taken := map[netip.AddrPort]string{}
	for _, net := range networks {
		addr, err := n.address(net)
		if err != nil {
			return nil, err
		}
		socket := netip.AddrPortFrom(addr, uint16(net.Port)) //nolint:gosec // checked with the configuration
		if other, twice := taken[socket]; twice {
			// Two networks with the same address are not two networks. This happens when a node's agent has not yet
			// written the annotations.
			return nil, fmt.Errorf("node %s has %v on the networks %s and %s: its agent has not yet written which address it has on them (annotation %s)",
				n.Name, addr, other, net.Name, AddressAnnotation+net.Name)
		}
		taken[socket] = net.Name
		out[net.Name] = addr.String()
	}
	return out, nil
}

func (n *Node) address(net Network) (netip.Addr, error) {
	key := AddressAnnotation + net.Name
	if text, ok := n.Annotations[key]; ok {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() {
			return netip.Addr{}, fmt.Errorf("node %s: annotation %s is %q: one IP address is needed; remove it, and the node's agent will write it again", n.Name, key, cut(text))
		}
		return a.Unmap(), nil
	}
	for _, a := range n.Internal {
		if !net.CIDR.IsValid() || net.CIDR.Contains(a) {
			return a, nil
		}
	}
	where := ""
	if net.CIDR.IsValid() {
		where = " in " + net.CIDR.String()
	}
	return netip.Addr{}, fmt.Errorf("node %s has no internal address%s for network %s: its agent has to write the annotation %s", n.Name, where, net.Name, key)
}

func cut(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// Missing returns the annotations that a node has to write, because the address that is found without them is wrong.
// found is by the network's name.
func Missing(n *Node, networks []Network, found map[string]netip.Addr) map[string]string {
	out := map[string]string{}
	bare := Node{Name: n.Name, Internal: n.Internal}
	for _, net := range networks {
		want, ok := found[net.Name]
		if !ok {
			continue
		}
		if a, err := n.address(net); err == nil && a == want {
			continue
		}
		out[AddressAnnotation+net.Name] = want.String()
	}
	if _, err := Addresses(&bare, networks); err != nil {
		// Without annotations, each address may be right and the networks together still ambiguous. So all annotations
		// are written.
		for _, net := range networks {
			key := AddressAnnotation + net.Name
			if want, ok := found[net.Name]; ok && n.Annotations[key] != want.String() {
				out[key] = want.String()
			}
		}
	}
	return out
}

// Members derives the list of members from the nodes of a group. present is the list that the node uses, empty if it
// has none yet.
//
// Without a list all nodes of the group must have all addresses: a list that leaves out a node would found a group of
// its own. With a list, a node that has not written its addresses yet does not delay the others. A present member keeps
// the addresses that it had; a new member is left out until it has addresses. notes lists both.
func Members(nodes []Node, networks []Network, present []roster.Member) (members []roster.Member, notes []string, err error) {
	for i := range nodes {
		n := &nodes[i]
		addresses, err := Addresses(n, networks)
		if err != nil {
			if len(present) == 0 {
				return nil, nil, err
			}
			notes = append(notes, err.Error())
			k := slices.IndexFunc(present, func(m roster.Member) bool { return m.Name == n.Name })
			if k < 0 {
				continue
			}
			addresses = present[k].Addresses
		}
		members = append(members, roster.Member{Name: n.Name, Addresses: addresses})
	}
	slices.SortFunc(members, func(a, b roster.Member) int { return strings.Compare(a.Name, b.Name) })
	return members, notes, distinct(members)
}

// distinct refuses a list in which two nodes share an address, or a network has two families.
func distinct(members []roster.Member) error {
	owner := map[string]string{}
	first := map[string]int{}
	for i, m := range members {
		for _, network := range slices.Sorted(maps.Keys(m.Addresses)) {
			a := m.Addresses[network]
			key := network + "=" + a
			if other, twice := owner[key]; twice {
				return fmt.Errorf("nodes %s and %s have the same address %s on network %s: correct the annotation %s of one of them, or its internal address",
					other, m.Name, a, network, AddressAnnotation+network)
			}
			owner[key] = m.Name
			k, known := first[network]
			if !known {
				first[network] = i
				continue
			}
			if b := members[k].Addresses[network]; strings.Contains(a, ":") != strings.Contains(b, ":") {
				return fmt.Errorf("on network %s node %s has %s and node %s has %s: all addresses of a network must have one family; give it a CIDR", network, members[k].Name, b, m.Name, a)
			}
		}
	}
	return nil
}
